// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/find_data_files.hpp"
#include "src/data/mistake_list.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// An image in a shard, which is a tar file of WebDataset's layout: files of one sample are adjacent and have
/// the same name except for the extension, `000000017.cls` and `000000017.jpg`.
struct PackedImage {
  std::int64_t begin = 0;  ///< Position of its bytes in the shard
  std::int64_t bytes = 0;
  std::int32_t label = 0;  ///< −1: it has none
  std::string name{};      ///< Its path before it was packed; in shards without an index that of the member
};

/// The contents of a shard, read from the file NAME.tar.index next to it or from its headers.
struct ShardIndex {
  std::int64_t bytes = 0;      ///< Size of the shard
  std::uint64_t checksum = 0;  ///< XXH3 of the shard; of a shard that was scanned 0
  std::uint64_t sources = 0;   ///< XXH3 of paths, sizes and times of the files that were packed
  std::vector<PackedImage> images{};
  LeftOut left_out{};  ///< Members that are not read, of a shard that was scanned

  /// The text of the index: a line for the shard, one for each image and one with the checksum of those.
  std::string text() const;
  /// @param path of the index, for messages
  /// @throws UserError if `text` is damaged, or says what no shard of its size can hold
  static ShardIndex of_text(std::string_view text, const std::string& path);
};

/// The index of a shard: "train-000000.tar.index".
std::string index_path(const std::string& shard);

/// Lists the images of a shard that has no index, by the headers of the tar file: `KEY.jpg`, `.jpeg` or
/// `.png` with the label in `KEY.cls`, in any order; the key ends at the first point of the file's name.
/// Other files are passed over; a sample without an image is a mistake, unless it has .json and .txt only.
/// Names are never used to open or write anything.
/// @param mistakes gets what is wrong with single samples
/// @throws UserError for what is not a tar file, or is truncated
ShardIndex scan_shard(const File& shard, MistakeList& mistakes);

}  // namespace flotilla
