// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/files/file.hpp"

namespace flotilla {

enum class IdxKind { images, labels };

/// The checked contents of an IDX file, uncompressed on disk. Big-endian header: magic number 2051 (images:
/// then count, rows, columns) or 2049 (labels: then count); one unsigned byte per pixel or label follows.
struct IdxFile {
  std::string path;
  File bytes;              ///< The file itself, or an inflated nameless copy without the header
  std::int64_t begin = 0;  ///< Of the first item, in `bytes`
  std::int64_t header_bytes = 0;
  std::int64_t items = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::string storage;  ///< "7.8 MB inflated in /tmp"; empty if the file itself is read

  std::int64_t item_bytes() const { return rows * columns; }
};

/// Opens a plain or a gzip file, recognised by its content. A gzip file is inflated once, in constant
/// memory, into temporary_folder().
/// @param inflated File::handle() of IdxFile::bytes in another process; empty: it is inflated here
/// @throws UserError naming file, position and remedy.
IdxFile open_idx(const std::string& path, IdxKind kind, const std::string& inflated = {});

}  // namespace flotilla
