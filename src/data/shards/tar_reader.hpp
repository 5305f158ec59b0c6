// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/data/shards/tar_format.hpp"
#include "src/files/file.hpp"

namespace flotilla::tar {

/// A file, folder or link in a tar file.
struct Member {
  std::string name{};
  std::int64_t begin = 0;  ///< Of its contents, in the tar file
  std::int64_t bytes = 0;  ///< Of its contents; of folders and links 0
  char type = '0';         ///< As tar::Header has it; 'S' also for the sparse files of pax
};

/// Lists the members of a tar file (ustar, pax, GNU's long names and large sizes) by its headers, and of the
/// tar files behind it where several were joined (cat a.tar b.tar, tar -i reads them): contents
/// are not read, but for the few KiB behind a header that come with it. Takes 16 KiB, and up to 1 MiB where
/// the file holds such a header.
class Reader {
 public:
  /// `file` must outlive the reader.
  explicit Reader(const File& file) : file_(file) {}
  /// The next member. @returns false at the end of the last tar file
  /// @throws UserError with the file, the byte and what is wrong there
  bool next(Member& member);
  /// The contents of a member that next() has given. @throws UserError as File::read does
  std::span<const std::byte> contents(const Member& member) { return view(member.begin, member.bytes); }
  std::int64_t at() const { return next_; }  ///< Bytes of the file that have been passed
  int archive() const { return archive_; }   ///< Of the last member: 0 in the first of several tar files
  /// At the end: bytes behind the blocks of zeros that are no tar file.
  std::int64_t trailing_bytes() const { return file_.size() - next_; }

 private:
  /// Whether there is a header of a tar file at next_ or behind the blocks of zeros there.
  bool find_header();
  std::span<const std::byte> view(std::int64_t begin, std::int64_t bytes);
  std::string text_of_extension(const Header& header, std::int64_t at);
  [[noreturn]] void fail(std::int64_t at, const std::string& what) const;

  const File& file_;
  std::int64_t next_ = 0;  ///< Of the next header
  int archive_ = 0;
  std::vector<std::byte> window_;
  std::int64_t window_begin_ = 0;
};

}  // namespace flotilla::tar
