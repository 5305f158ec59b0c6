// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace flotilla {

/// Writes all of `text`, with one system call where the system takes it whole. Returns 0 or the errno. A
/// reader that has gone away is EPIPE, never a signal.
int write_fully(int descriptor, std::string_view text) noexcept;

/// The system's words for an errno: "No space left on device".
std::string system_message(int error);

/// Whether something has that name. @throws UserError if the system cannot tell (an input/output error, a
/// stale handle, no permission): only what it calls "no such file or directory" is not there.
bool is_there(const std::string& path);

/// Makes a folder and those above it, so that they outlive a crash of the machine. @returns 0 or the errno.
int make_folders(const std::string& folder);

/// Makes a folder and those above it. @throws UserError naming it if that fails, if a file is in its place,
/// or if it is not writable; `key` is the deck key that would help.
void make_output_folder(const std::string& folder, const std::string& key = "run.output");

/// A text file that appears whole or not at all: temporary name, fsync, rename, fsync of the folder. What is
/// not committed is removed. Folders above it are made. All functions throw UserError naming the file and the
/// reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  void append(std::string_view text);
  void commit();

 private:
  [[noreturn]] void fail(const char* call, int error) const;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

/// Removes what AtomicFiles for `path` left when their processes were killed. Not while others write it.
void remove_unfinished(const std::string& path);

/// What is no regular file (/dev/stdout) is written into instead.
/// @throws UserError naming the file and the reason; the file before, if any, is then untouched.
void write_text_file_atomically(const std::string& path, std::string_view text);

}  // namespace flotilla
