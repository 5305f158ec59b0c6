// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/images/image_source.hpp"
#include "src/data/mistake_list.hpp"
#include "src/data/shards/shard_index.hpp"

namespace flotilla {

/// The shards that `path` names (find_data_files), of folders the files *.tar. Those that braces stand for
/// need not be there. @throws UserError if there is none
std::vector<std::string> find_shards(const std::string& path, LeftOut* left_out = nullptr);

/// The shards of a source: all that data.kind = "webdataset" names, or what is to be predicted where that is
/// shards, patterns of them or folders that hold them.
/// @returns empty if the source is of another kind
/// @throws UserError if there is none, or if a folder to predict holds images as well as shards
std::vector<std::string> find_shards(const DataConfig& data, const DataSourceConfig& source,
                                     LeftOut* left_out = nullptr);

struct ShardOptions {
  std::int64_t classes = 0;                      ///< Labels are 0 … classes − 1
  bool labelled = true;                          ///< False: labels are not needed, and all of them are 0
  std::int64_t threads = 1;                      ///< Threads that read indexes and headers
  std::int64_t ranks_on_host = 1;                ///< Ranks that share the host's memory
  std::map<std::string, std::string> indexes{};  ///< ShardIndex::text() of shards that were scanned, by path
  LeftOut left_out{};                            ///< Files that find_shards() left out
};

/// The contents of the shard, from its index or, if it has none, from its headers.
/// @param mistakes gets what is wrong with single samples
/// @throws UserError for a shard that cannot be read, or that its index does not fit
ShardIndex read_index(const std::string& shard, MistakeList& mistakes);

/// The images of shards, in their order. Takes 24 bytes and the name for each image, and keeps up to 256
/// shards open.
/// @param origin the shards as the user wrote them, for messages
/// @throws UserError with the mistakes of all shards
std::unique_ptr<ImageSource> open_shards(const std::string& origin, const std::vector<std::string>& shards,
                                         const ShardOptions& options);

}  // namespace flotilla
