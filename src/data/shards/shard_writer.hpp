// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
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

/// The JSON stored with an image in its shard: {"path":"cat/1.jpg"}. @param path UTF-8 without control
/// characters
std::string path_json(std::string_view path);

/// The numbers of samples at which shards begin, followed by the number of all samples: as few shards as hold
/// all, of equal sizes up to a sample, so that they do not depend on the number of ranks that pack.
/// @param bytes of each image  @param shard_bytes about the size of a shard, at most
std::vector<std::int64_t> cut_into_shards(const ImageList& list, std::span<const std::int64_t> bytes,
                                          std::int64_t shard_bytes);

/// The size of the file of sample i. @param mistakes gets what is wrong with it: a missing or empty file, a
/// path that is not a line of text
std::int64_t examine_image(const ImageList& list, std::int64_t i, MistakeList& mistakes);

/// Consecutive samples of a list that become one shard.
struct ShardPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string path{};  ///< Path of the shard
};

/// Called with the number of bytes of images that were read since the last call.
using PackProgress = std::function<void(std::int64_t bytes)>;

/// Whether the shard and its index are there, are those of these samples, whose files have kept their sizes
/// and times, and the shard has the checksum that its index says.
bool is_packed(const ImageList& list, const ShardPart& part, const PackProgress& progress);

/// Packs samples into a shard, reads it back from the disk, gives it its name, then its index. Both files
/// appear whole or not at all.
/// @param bytes of the image of each sample of the part
/// @param mistakes gets files that are not images or have changed; the shard is then not made
/// @returns bytes of the shard  @throws UserError if the shard cannot be written
std::int64_t write_shard(const ImageList& list, const ShardPart& part, std::span<const std::int64_t> bytes,
                         const PackProgress& progress, MistakeList& mistakes);

}  // namespace flotilla
