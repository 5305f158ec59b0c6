// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace flotilla::tar {

// The blocks of tar files: POSIX.1-2001 (ustar, pax), and what GNU tar adds to them.

inline constexpr std::int64_t block_bytes = 512;
/// Two blocks of zeros.
inline constexpr std::int64_t end_bytes = 2 * block_bytes;

/// Bytes that a member of so many bytes takes up behind its header.
constexpr std::int64_t padded(std::int64_t bytes) {
  return (bytes + block_bytes - 1) / block_bytes * block_bytes;
}

/// A ustar header of a regular file that all may read, of no owner and of the year 1970.
/// @param name 1 to 100 bytes  @param bytes below 2³³
std::string header(std::string_view name, std::int64_t bytes);

/// The fields of a header that a reader needs.
struct Header {
  std::string name{};      ///< With the prefix of ustar
  std::int64_t bytes = 0;  ///< Of what follows
  char type = '0';         ///< '0' a regular file, '5' a folder, 'x' pax, 'L' GNU's long name …
};

/// Whether a block is all zeros.
bool is_zero(std::span<const std::byte> block);

/// Nothing if the checksum of the block does not fit: it is no header. A size that is no number below 2⁶³ is
/// −1.
std::optional<Header> parse_header(std::span<const std::byte> block);

/// What a pax header says of the member behind it.
struct PaxRecords {
  std::optional<std::string> path{};
  std::optional<std::int64_t> bytes{};
  bool sparse = false;  ///< The member is in one of GNU's forms for files with holes
};

/// Nothing if `text` is not a list of records, or a size in it is no number below 2⁶³.
std::optional<PaxRecords> parse_pax(std::string_view text);

}  // namespace flotilla::tar
