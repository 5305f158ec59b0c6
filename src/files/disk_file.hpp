// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/error.hpp"

namespace flotilla {

/// The system cannot read a file that is there (an input/output error, a stale handle, no permission, no file
/// descriptor left …), so that nothing is known of its contents: it is not a damaged file.
struct UnreadableFile : UserError {
  UnreadableFile(const std::string& path, const std::string& reason);
};

/// An open file. Everything that fails is a UserError naming the file and the system's reason.
class DiskFile {
 public:
  /// For reading. @throws UnreadableFile, or else UserError where there is no such file or it is a folder.
  static DiskFile open(const std::string& path);
  static DiskFile create(const std::string& path);  ///< For writing, emptied.
  /// A nameless file in memory, for writing and reading.
  static DiskFile in_memory(const std::string& purpose);

  DiskFile(DiskFile&& other) noexcept;
  DiskFile& operator=(DiskFile&&) = delete;
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;
  ~DiskFile();

  std::int64_t size() const;
  /// @throws UserError if the file ends before; UnreadableFile.
  void read(std::int64_t position, std::span<std::byte> to) const;
  void write(std::int64_t position, std::span<const std::byte> from);
  /// Returns when these bytes are on their way to the disk and have left memory; not all file systems do
  /// that.
  void push_out(std::int64_t position, std::int64_t bytes);
  void sync();                         ///< Returns when all that was written is on the disk.
  void close();                        ///< Reports what the destructor would swallow.
  void replace(int descriptor) const;  ///< From now on `descriptor`, which is open, means this file.

 private:
  DiskFile(int descriptor, std::string path);
  int descriptor_;
  std::string path_;
};

void sync_folder(const std::string& folder);                       ///< So that a rename in it is on the disk.
void rename_file(const std::string& from, const std::string& to);  ///< Replaces `to` in one step.
std::string folder_of(const std::string& path);                    ///< "." for a plain name.

}  // namespace flotilla
