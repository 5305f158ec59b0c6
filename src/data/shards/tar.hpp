// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/files/file.hpp"

namespace flotilla::tar {

// The blocks of tar files: POSIX.1-2001 (ustar, pax), and what GNU tar adds to them.

inline constexpr std::int64_t block_bytes = 512;
/// Two blocks of zeros.
inline constexpr std::int64_t end_bytes = 2 * block_bytes;

/// Bytes that a member of this size takes up after its header.
constexpr std::int64_t padded(std::int64_t bytes) {
  return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

/// A ustar header of a regular file that all may read, of no owner and of the year 1970.
/// @param name 1 to 100 bytes  @param bytes below 2³³
std::string header(std::string_view name, std::int64_t bytes);

/// The fields of a header that a reader needs.
struct Header {
  std::string name{};      ///< Name with the prefix of ustar
  std::int64_t bytes = 0;  ///< Size of the contents that follow
  char type = '0';         ///< '0' a regular file, '5' a folder, 'x' pax, 'L' GNU's long name …
};

/// Whether a block is all zeros.
bool is_zero(std::span<const std::byte> block);

/// Nothing if the checksum of the block does not match: it is not a header. A size that is not a number below
/// 2⁶³ is −1.
std::optional<Header> parse_header(std::span<const std::byte> block);

/// The records of a pax header about the next member.
struct PaxRecords {
  std::optional<std::string> path{};
  std::optional<std::int64_t> bytes{};
  bool sparse = false;  ///< The member is in one of GNU's forms for files with holes
};

/// Nothing if `text` is not a list of records, or a size in it is no number below 2⁶³.
std::optional<PaxRecords> parse_pax(std::string_view text);

/// A file, folder or link in a tar file.
struct Member {
  std::string name{};
  std::int64_t begin = 0;  ///< Position of its contents in the tar file
  std::int64_t bytes = 0;  ///< Size of its contents; 0 for folders and links
  char type = '0';         ///< The type in tar::Header; 'S' also for the sparse files of pax
};

/// Lists the members of a tar file (ustar, pax, GNU's long names and large sizes) by its headers, and of the
/// tar files after it where several were joined (cat a.tar b.tar, tar -i reads them): contents are not read,
/// except for the few KiB after a header that are read with it. Takes 16 KiB, and up to 1 MiB where the file
/// holds such a header.
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
  int archive() const { return archive_; }   ///< Archive of the last member: 0 in the first of several
  /// At the end: bytes after the blocks of zeros that are not a tar file.
  std::int64_t trailing_bytes() const { return file_.size() - next_; }

 private:
  /// Whether there is a header of a tar file at next_ or after the blocks of zeros there.
  bool find_header();
  std::span<const std::byte> view(std::int64_t begin, std::int64_t bytes);
  std::string text_of_extension(const Header& header, std::int64_t at);
  [[noreturn]] void fail(std::int64_t at, const std::string& what) const;

  const File& file_;
  std::int64_t next_ = 0;  ///< Position of the next header
  int archive_ = 0;
  std::vector<std::byte> window_;
  std::int64_t window_begin_ = 0;
};

}  // namespace flotilla::tar
