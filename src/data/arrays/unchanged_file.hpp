// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "src/files/file.hpp"

namespace flotilla {

/// A file of samples that must stay as it is while it is read: now and then its stamp is compared with that
/// at the start. Safe from several threads.
class UnchangedFile {
 public:
  explicit UnchangedFile(File file);
  const std::string& name() const { return file_.name(); }
  std::int64_t size() const { return file_.size(); }
  const File& file() const { return file_; }

  /// @throws UserError if the file ends before `to` is full, or has changed
  void read(std::int64_t begin, std::span<std::byte> to) const;
  /// Asks the system to fetch these bytes meanwhile.
  void will_read(std::int64_t begin, std::int64_t bytes) const;
  /// @throws UserError if the file has changed since it was opened
  void check() const;

 private:
  File file_;
  FileStamp stamp_;
  mutable std::atomic<std::uint32_t> reads_{0};
};

}  // namespace flotilla
