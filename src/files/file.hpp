// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kernels/error.hpp"

namespace flotilla {

/// The system cannot read a file that is there (an input/output error, a stale handle, no permission, no file
/// descriptor left …), so that nothing is known of its contents: it is not a damaged file.
struct UnreadableFile : UserError {
  UnreadableFile(const std::string& name, const std::string& reason);
};

/// A remedy for an errno.
using Remedy = const char* (*)(int error);

/// The system's words for an errno: "No space left on device".
std::string system_message(int error);

/// "cannot open '/data/a.gz': No such file or directory; check the path".
/// @param remedy may be null
/// @throws UserError if nothing of this name exists or it is a folder, otherwise UnreadableFile
[[noreturn]] void fail_to_read(const std::string& name, int error, Remedy remedy = nullptr);

/// "cannot write '/data/a': No space left on device". @param remedy may be null  @throws UserError
[[noreturn]] void fail_to_write(const std::string& name, int error, Remedy remedy = nullptr,
                                const char* action = "write");

/// Raises this process's limit on open files to `count`, or as far as the system allows. @returns the limit
std::int64_t allow_open_files(std::int64_t count);

/// The length and the time of the last change of a file.
struct FileStamp {
  std::int64_t bytes = 0;
  std::int64_t changed_ns = 0;  ///< Since 1970
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

FileStamp stamp_of(const struct stat& status);

/// An open file, read and written at given positions, so that several threads may share it. Move-only. What
/// fails is a UserError that names the file, the system's reason and the remedy that the file was opened
/// with; UnreadableFile where the system cannot read.
class File {
 public:
  /// Opens a regular file for reading. @throws UserError if it is missing or something else.
  static File open(const std::string& path, Remedy remedy = nullptr);
  /// A new file for writing and reading, with the user's umask; what has that name is removed first, and a
  /// link is not followed. @param name in messages; empty: `path`
  static File create(const std::string& path, std::string name = {}, Remedy remedy = nullptr);
  /// A new file without a name in `folder`: it vanishes with this object or with the process. `purpose`
  /// ("the inflated copy of train.gz") names it in messages. @throws UserError if the folder cannot be
  /// written.
  static File temporary(const std::string& folder, const std::string& purpose);
  /// A nameless file in memory, for writing and reading.
  static File in_memory(const std::string& purpose);

  /// Opens for reading the file of which another process of this host gave handle(), under `name`. Nothing
  /// where this process cannot reach it: it sees other processes, as in a container of its own, or the file
  /// is closed.
  static std::optional<File> of_handle(const std::string& handle, const std::string& name);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::string& name() const { return name_; }
  /// With this text other processes of the host and of the user can open the file, nameless or not, while it
  /// is open here: "/proc/4711/fd/5 2049 131074" (device, inode).
  std::string handle() const;
  /// For calls of the system that this class does not have.
  int descriptor() const { return descriptor_; }
  std::int64_t size() const { return size_; }  ///< Bytes, when opened or appended last.
  FileStamp stamp() const;                     ///< Stamp of the file as it is now
  std::int64_t size_now() const;               ///< Bytes, including what other processes have written
  /// Reads from byte `begin` on; fewer bytes only at the end of the file.
  std::size_t read_some(std::int64_t begin, std::span<std::byte> to) const;
  /// @throws UserError if the file ends before `to` is full.
  void read(std::int64_t begin, std::span<std::byte> to) const;
  /// All of it. @throws UserError also where it has more than 4 GiB
  std::string text() const;
  /// A hint: these bytes will be read soon. They are fetched into the system's memory, in the background
  /// where the disk has a queue; what fails shows when they are read.
  void read_ahead(std::int64_t begin, std::int64_t bytes) const;
  void write(std::int64_t begin, std::span<const std::byte> from);
  void append(std::span<const std::byte> from);  ///< Behind what was appended before.
  /// Temporary files only. Keeps room for `bytes` on the disk, where its file system can do that; appended
  /// bytes take it up. Several processes that reserve space get no more than there is. @throws UserError if
  /// there is too little.
  void reserve(std::int64_t bytes);
  /// Returns when these bytes are on their way to the disk and have left memory; not all file systems do
  /// that.
  void push_out(std::int64_t begin, std::int64_t bytes);
  void sync();   ///< Returns when all that was written is on the disk.
  void close();  ///< Reports what the destructor would swallow.

 private:
  File(int descriptor, std::string name, Remedy remedy);
  struct stat status() const;

  int descriptor_ = -1;
  std::string name_;
  Remedy remedy_ = nullptr;
  std::int64_t size_ = 0;
};

std::string own_host_name();  ///< The name that the system gives this host.

/// The folder for temporary files: $TMPDIR, otherwise /tmp.
std::string temporary_folder();

/// Writes all of `text`, with one system call where the system takes it whole. Returns 0 or the errno. A
/// reader that has gone away is EPIPE, never a signal.
int write_fully(int descriptor, std::string_view text) noexcept;

}  // namespace flotilla
