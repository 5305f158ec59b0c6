// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/files/file.hpp"

namespace flotilla {

/// Inflates a gzip file from its start to its end in constant memory; several members one after another
/// count as one, and zeros between and after them are skipped, as by gunzip.
class GzipReader {
 public:
  /// Whether the file begins with gzip's magic number, whatever its name.
  static bool recognises(const File& file);

  /// `file` must outlive the reader.
  explicit GzipReader(const File& file);
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;
  ~GzipReader();

  /// The next inflated bytes; fewer only at the end, which is reached when the checksums were right.
  /// @throws UserError if the file is damaged or truncated.
  std::size_t read(std::span<std::byte> to);
  /// At the end: bytes after the gzip data that are neither zeros nor gzip data, which gzip warns of.
  std::int64_t trailing_bytes() const { return trailing_; }
  /// Whether the file can hold `bytes` bytes at all: gzip makes data smaller by a factor of 1032 at most.
  bool can_hold(std::int64_t bytes) const;

 private:
  bool refill();            ///< False at the end of the file.
  bool next_member();       ///< Begins the next member; false at the end of the file.
  std::int64_t at() const;  ///< Offset of the next byte in the compressed file

  const File& file_;
  std::vector<std::byte> input_;
  std::int64_t taken_ = 0;  ///< Bytes of the file handed to zlib so far
  std::int64_t trailing_ = 0;
  bool ended_ = false;
  z_stream stream_{};
};

/// Appends the next inflated bytes to `copy`, up to `most` of them; fewer only at the end.
void inflate_into(GzipReader& reader, File& copy, std::int64_t most);

/// The inflated content of a gzip file, in a nameless file in temporary_folder().
/// @param trailing gets GzipReader::trailing_bytes()
/// @throws UserError as GzipReader does and if the disk is full
File inflated_copy(const File& compressed, std::int64_t& trailing);

}  // namespace flotilla
