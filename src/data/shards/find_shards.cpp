// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/find_shards.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/images/image_folder.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

using Paths = std::vector<std::string>;

bool is_shard(const std::string& path) {
  return small_ending(path) == ".tar";
}

/// Whether `path` is a shard, a pattern of shards or a folder with shards, by its name.
/// @throws UserError for a folder in which shards and images lie, since only one kind could be read
bool names_shards(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return is_shard(path);
  std::string shard;
  std::string other;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) continue;
    if (is_shard(name))
      shard = name;
    else if (has_image_ending(name) || at->is_directory())
      other = name;
  }
  if (!shard.empty() && !other.empty())
    throw UserError(cat(config::printable(path), ": holds ", config::quoted(other), " beside the shard ",
                        config::quoted(shard), ", so that it is not clear what to predict; name ",
                        config::quoted(path + "/*.tar"), ", or put the shards elsewhere"));
  return !shard.empty();
}

}  // namespace

std::vector<std::string> find_shards(const std::string& path, LeftOut* left_out) {
  const auto what_is = [](const std::string& name) {
    if (is_shard(name)) return InFolder::data;
    return name.ends_with(".tar.index") || name == "classes.txt" ? InFolder::beside : InFolder::other;
  };
  return find_data_files(path, {.of = what_is, .wanted = "*.tar"}, left_out);
}

std::vector<std::string> find_shards(const DataConfig& data, const DataSourceConfig& source,
                                     LeftOut* left_out) {
  if (source.has_labels())
    return data.kind == DataKind::webdataset ? find_shards(source.path, left_out) : Paths{};
  if (!std::ranges::all_of(source.inputs, names_shards)) return {};
  Paths shards;
  for (const std::string& input : source.inputs)
    std::ranges::move(find_shards(input, left_out), std::back_inserter(shards));
  return shards;
}

}  // namespace flotilla
