// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"

namespace flotilla {

/// The names that a pattern with braces stands for, as shells have it: "a-{000..002}.tar" for three,
/// "{a,b}.tar" for two. Numbers have the width of the wider limit where that begins with 0.
/// @throws UserError for more than a million
std::vector<std::string> expand_braces(const std::string& pattern);

/// The shards that `path` names, each a tar file: itself, the files *.tar of the folder, those that match its
/// wildcards, or those that its braces stand for, which need not be there. Numbers in names count as numbers.
/// @throws UserError if there is none
std::vector<std::string> find_shards(const std::string& path);

/// The shards of a source: all that data.kind = "webdataset" names, or what is to be predicted where that is
/// shards, patterns of them or folders that hold them.
/// @returns empty if the source is of another kind
/// @throws UserError if there is none, or if a folder to predict holds images beside shards
std::vector<std::string> find_shards(const DataConfig& data, const DataSourceConfig& source);

}  // namespace flotilla
