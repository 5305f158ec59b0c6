// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/files/file.hpp"

namespace flotilla {

/// Files that are opened when they are first read; of many the ones opened last stay open. Safe from several
/// threads at once.
class OpenFiles {
 public:
  /// @param most open at a time, those in use apart
  explicit OpenFiles(std::size_t most) : most_(most) {}
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  /// Adds a file, which must not change from now on. @param stamp of it when its contents were looked up
  void add(const std::string& path, const FileStamp& stamp) { files_.push_back({path, stamp, nullptr}); }
  const std::string& path(std::size_t number) const { return files_[number].path; }
  /// The file of this number, in the order of adding. @throws UserError if it cannot be opened or has changed
  std::shared_ptr<const File> open(std::size_t number) const;

 private:
  struct Entry {
    std::string path;
    FileStamp stamp;
    mutable std::shared_ptr<const File> file;  ///< Under mutex_; null: closed
  };

  std::size_t most_;
  std::vector<Entry> files_;
  mutable std::mutex mutex_;
  mutable std::deque<std::size_t> opened_;  ///< Under mutex_: those that are open, the oldest first
};

}  // namespace flotilla
