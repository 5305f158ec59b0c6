// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/data/left_out.hpp"

namespace flotilla {

/// The shards that `path` names (find_data_files), of folders the files *.tar. Those that braces stand for
/// need not be there. @throws UserError if there is none
std::vector<std::string> find_shards(const std::string& path, LeftOut* left_out = nullptr);

/// The shards of a source: all that data.kind = "webdataset" names, or what is to be predicted where that is
/// shards, patterns of them or folders that hold them.
/// @returns empty if the source is of another kind
/// @throws UserError if there is none, or if a folder to predict holds images beside shards
std::vector<std::string> find_shards(const DataConfig& data, const DataSourceConfig& source,
                                     LeftOut* left_out = nullptr);

}  // namespace flotilla
