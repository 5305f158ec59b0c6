// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "src/files/file.hpp"

namespace flotilla {

/// A file that appears whole or not at all: written under a temporary name, synced, renamed, and its folder
/// synced. What has not got its name is removed. All functions throw UserError naming the file and the
/// reason.
class AtomicFile {
 public:
  /// Makes the folders above it. @param remedy for messages
  explicit AtomicFile(std::string path, Remedy remedy = nullptr);
  /// @param temporary a path on the same file system; an existing file is replaced  @param remedy for
  /// messages
  AtomicFile(std::string path, std::string temporary, Remedy remedy = nullptr);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  File& file() { return file_; }
  const std::string& path() const { return path_; }
  const std::string& temporary() const { return temporary_; }  ///< Empty once it has its name.
  void append(std::string_view text);
  /// complete(), give_name(), sync_folder().
  void commit();

  // The parts of commit(), for callers that do something between them.
  void complete();   ///< All that was written is on the disk.
  void give_name();  ///< Replaces what has that name; that may not outlive a crash of the machine.
  bool has_name() const { return temporary_.empty(); }

 private:
  std::string path_;
  std::string temporary_;
  Remedy remedy_;
  File file_;
};

/// Removes what AtomicFiles for `path` left when their processes were killed. Not while others write it.
void remove_unfinished(const std::string& path);
/// Removes what AtomicFiles left for all files of a folder whose names begin so. Not while others write them.
void remove_unfinished_in(const std::string& folder, const std::string& beginning);

/// A path that is not a regular file (/dev/stdout) is written to directly.
/// @throws UserError naming the file and the reason; the file before, if any, is then untouched.
void write_text_file_atomically(const std::string& path, std::string_view text);

}  // namespace flotilla
