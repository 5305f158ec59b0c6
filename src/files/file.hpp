// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace flotilla {

/// An open file, read at given positions, so that several threads may share it. Move-only. Failures are
/// UserErrors that name the file and the remedy.
class File {
 public:
  /// Opens a regular file for reading. @throws UserError if it is missing, unreadable or a folder.
  static File open(const std::string& path);
  /// A new file without a name in `folder`: it vanishes with this object or with the process. `purpose`
  /// ("the inflated copy of train.gz") names it in messages. @throws UserError if the folder cannot be
  /// written.
  static File temporary(const std::string& folder, const std::string& purpose);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::string& name() const { return name_; }
  std::int64_t size() const { return size_; }  ///< Bytes, when opened or appended last.
  /// Reads from byte `begin` on; fewer bytes only at the end of the file.
  std::size_t read_some(std::int64_t begin, std::span<std::uint8_t> to) const;
  /// @throws UserError if the file ends before `to` is full.
  void read(std::int64_t begin, std::span<std::uint8_t> to) const;
  /// Temporary files only. Keeps room for `bytes` on the disk, where its file system can do that; appended
  /// bytes take it up. Several processes that do so get no more than there is. @throws UserError if there is
  /// too little.
  void reserve(std::int64_t bytes);
  /// Temporary files only. @throws UserError with the remedy if the disk is full.
  void append(std::span<const std::uint8_t> from);

 private:
  File(int descriptor, std::string name, std::int64_t size);

  int descriptor_ = -1;
  std::string name_;
  std::int64_t size_ = 0;
};

/// Where temporary files go: $TMPDIR, else /tmp.
std::string temporary_folder();

}  // namespace flotilla
