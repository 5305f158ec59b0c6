// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/mistake_list.hpp"
#include "src/data/shards/shard_index.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// Lists the images of a shard that has no index, by the headers of the tar file: `KEY.jpg`, `.jpeg` or
/// `.png` with the label in `KEY.cls`, in any order; the key ends at the first point of the file's name. All
/// other files are passed over, but a sample of which nothing but .json and .txt may be missing needs its
/// image. Names are never used to open or write anything.
/// @param mistakes gets what is wrong with single samples
/// @throws UserError for what is no tar file, or one that was cut short
ShardIndex scan_shard(const File& shard, MistakeList& mistakes);

}  // namespace flotilla
