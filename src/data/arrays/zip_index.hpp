// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/files/file.hpp"

namespace flotilla {

/// A file in a ZIP archive.
struct ZipMember {
  std::string name;
  bool deflated = false;    ///< Else stored
  std::int64_t begin = 0;   ///< Of its bytes in the archive
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

/// Inflates a deflated member into a nameless file in temporary_folder(). @throws UserError if it is damaged
File inflated_member(const File& archive, const ZipMember& member);

}  // namespace flotilla
