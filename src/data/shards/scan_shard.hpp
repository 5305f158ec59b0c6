// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/mistake_list.hpp"
#include "src/data/shards/shard_index.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// Lists the images of a shard that has no index, by the headers of the tar file: `KEY.jpg`, `.jpeg` or
/// `.png` with the label in `KEY.cls`, in any order; the key ends at the first point of the file's name.
/// Other files are passed over; a sample without an image is a mistake, unless it has .json and .txt only.
/// Names are never used to open or write anything.
/// @param mistakes gets what is wrong with single samples
/// @throws UserError for what is no tar file, or one that was cut short
ShardIndex scan_shard(const File& shard, MistakeList& mistakes);

}  // namespace flotilla
