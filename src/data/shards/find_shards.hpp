// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace flotilla {

/// The names that a pattern with braces stands for, as shells have it: "a-{000..002}.tar" for three,
/// "{a,b}.tar" for two. Numbers have the width of the wider limit where that begins with 0.
/// @throws UserError for more than a million
std::vector<std::string> expand_braces(const std::string& pattern);

/// The shards that `path` names, each a tar file: itself, the files *.tar of the folder, those that match its
/// wildcards, or those that its braces stand for, which need not be there. Numbers in names count as numbers.
/// @throws UserError if there is none
std::vector<std::string> find_shards(const std::string& path);

/// Whether `path` is a shard, a pattern of shards or a folder with shards, by its name.
bool names_shards(const std::string& path);

}  // namespace flotilla
