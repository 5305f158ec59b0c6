// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/images/image_list.hpp"
#include "src/data/mistake_list.hpp"

namespace flotilla {

/// A file of a sample in a shard: `000000017.cls`, `000000017.jpg`, `000000017.json`.
struct ShardMember {
  std::string name;
  std::string contents;  ///< Empty for the image, whose bytes are those of its file
};

/// The number of a sample in its list, as the key of its files.
std::string sample_key(std::int64_t number);

/// What lies beside an image in its shard: {"path":"cat/1.jpg"}. @param path UTF-8 without control characters
std::string path_json(std::string_view path);

/// The numbers of samples at which shards begin, and behind them the number of all samples: as few shards as
/// hold all, of equal sizes up to a sample, so that they do not depend on who packs.
/// @param bytes of each image  @param shard_bytes about the size of a shard, at most
std::vector<std::int64_t> cut_into_shards(const ImageList& list, std::span<const std::int64_t> bytes,
                                          std::int64_t shard_bytes);

/// The size of the file of sample i. @param mistakes gets what is wrong with it: a missing or empty file, a
/// path that is no line of text
std::int64_t examine_image(const ImageList& list, std::int64_t i, MistakeList& mistakes);

}  // namespace flotilla
