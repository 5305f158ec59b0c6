// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/files/file.hpp"

namespace flotilla {

/// A file in a ZIP archive.
struct ZipMember {
  std::string name;
  bool deflated = false;    ///< False: stored
  std::int64_t begin = 0;   ///< Position of its bytes in the archive
  std::int64_t stored = 0;  ///< Bytes in the archive
  std::int64_t bytes = 0;   ///< Bytes as they were
  std::uint32_t crc32 = 0;
};

/// The members of an archive, from its central directory; also of more than 4 GiB (ZIP64).
/// @throws UserError if the file is truncated or no ZIP archive, or for members that are encrypted or
/// compressed by anything but deflate
std::vector<ZipMember> zip_members(const File& archive);

/// Compares a stored member with its checksum. @throws UserError if it is damaged
void check_stored(const File& archive, const ZipMember& member);

/// The inflated bytes of a deflated member, from its start to its end in constant memory.
class MemberReader {
 public:
  /// `archive` must outlive the reader.
  MemberReader(const File& archive, ZipMember member);
  MemberReader(const MemberReader&) = delete;
  MemberReader& operator=(const MemberReader&) = delete;
  ~MemberReader();
  /// The next bytes; fewer only at the end. @throws UserError if the member is damaged, at the latest when
  /// its end is reached
  std::size_t read(std::span<std::byte> to);

 private:
  const File& archive_;
  ZipMember member_;
  std::vector<std::byte> in_;
  z_stream stream_{};
  std::int64_t taken_ = 0;  ///< Bytes handed to zlib
  std::int64_t got_ = 0;    ///< Bytes inflated
  uLong sum_;
  bool ended_ = false;
};

/// Inflates a deflated member into a nameless file in temporary_folder(). @throws UserError if it is damaged
File inflated_member(const File& archive, const ZipMember& member);

}  // namespace flotilla
