// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "src/data/arrays/numbers.hpp"
#include "src/data/dataset.hpp"
#include "src/files/file.hpp"

namespace flotilla {

enum class IdxKind { images, labels };

/// The checked contents of an IDX file, one unsigned byte per pixel or label, uncompressed on disk. The file
/// holds a big-endian header, two zeros, the type of the numbers, the number of extents and the extents
/// (images: count, rows, columns; labels: count, and QMNIST's columns, of which the first is the class), then
/// the numbers.
struct IdxFile {
  std::string path;
  File bytes;              ///< The file itself, or an inflated nameless copy without the header
  std::int64_t begin = 0;  ///< Position of the first item in `bytes`
  std::int64_t header_bytes = 0;
  int type = 8;            ///< Type of the numbers in the file: 8: unsigned bytes
  std::int64_t width = 1;  ///< Numbers of a label in the file
  std::int64_t items = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::string storage;  ///< "7.8 MB inflated in /tmp" or "… converted in …"; empty if the file itself is read

  std::int64_t item_bytes() const { return rows * columns; }
  std::int64_t stored_item_bytes() const;  ///< Size of an item in the file
};

/// The header of a file that open_idx() opens: `bytes` is the file as it lies on the disk, its length is not
/// checked. @param compressed set to whether it is a gzip file
IdxFile idx_header(const std::string& path, IdxKind kind, bool& compressed);

/// Opens a plain or a gzip file, recognised by its content. A gzip file is inflated once, and numbers of
/// other types, which must be whole and in 0 … 255, are converted, in constant memory, into
/// temporary_folder().
/// @param inflated File::handle() of IdxFile::bytes in another process; empty: it is inflated here
/// @throws UserError naming file, position and remedy.
IdxFile open_idx(const std::string& path, IdxKind kind, const std::string& inflated = {});

/// Grey images and their labels out of two IDX files, read from disk sample by sample. Sample shape
/// (1, rows, columns); no augmentation.
/// @param labels empty: all are 0
/// @param inflated DatasetUse::inflated
/// @throws UserError naming file, position and remedy.
std::unique_ptr<Dataset> open_idx_dataset(const std::string& images, const std::string& labels,
                                          std::int64_t classes, const PixelScale& scale,
                                          const std::map<std::string, std::string>& inflated = {});

}  // namespace flotilla
