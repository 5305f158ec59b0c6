// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "src/data/images/image_list.hpp"
#include "src/data/mistake_list.hpp"

namespace flotilla {

/// Consecutive samples of a list that become one shard.
struct ShardPart {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string path{};  ///< Of the shard
};

/// Called with the number of bytes of images that were read since the last call.
using PackProgress = std::function<void(std::int64_t bytes)>;

/// Whether the shard and its index are there, are those of these samples, whose files have kept their sizes
/// and times, and the shard has the checksum that its index says.
bool is_packed(const ImageList& list, const ShardPart& part, const PackProgress& progress);

/// Packs samples into a shard, reads it back from the disk, gives it its name, then its index. Both files
/// appear whole or not at all.
/// @param bytes of the image of each sample of the part
/// @param mistakes gets files that are no image or have changed; the shard is then not made
/// @returns bytes of the shard  @throws UserError if the shard cannot be written
std::int64_t write_shard(const ImageList& list, const ShardPart& part, std::span<const std::int64_t> bytes,
                         const PackProgress& progress, MistakeList& mistakes);

}  // namespace flotilla
