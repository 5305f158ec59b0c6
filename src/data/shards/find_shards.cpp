// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/find_shards.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/images/image_folder.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_names = 1000000;

std::optional<std::int64_t> limit_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0) return {};
  return value;
}

/// What the text between two braces stands for; nothing if it is no list and no range.
std::vector<std::string> alternatives(std::string_view text) {
  std::vector<std::string> found;
  if (text.find(',') != text.npos) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      found.emplace_back(text.substr(at, end - at));
      at = end + 1;
    }
    return found;
  }
  const std::size_t dots = text.find("..");
  if (dots == text.npos) return {};
  const std::string_view first = text.substr(0, dots);
  const std::string_view last = text.substr(dots + 2);
  const auto from = limit_of(first);
  const auto to = limit_of(last);
  if (!from || !to || *from > *to) return {};
  if (*to - *from >= most_names)
    throw UserError(cat("{", text, "} stands for more than ", most_names, " files"));
  const bool padded = first.starts_with('0') || last.starts_with('0');
  const std::size_t width = padded ? std::max(first.size(), last.size()) : 0;
  for (std::int64_t number = *from; number <= *to; ++number) {
    const std::string digits = std::to_string(number);
    found.push_back(std::string(width - std::min(width, digits.size()), '0') + digits);
  }
  return found;
}

using Paths = std::vector<std::string>;

bool is_shard(const std::string& path) {
  return path.ends_with(".tar");
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

std::vector<std::string> expand_braces(const std::string& pattern) {
  for (std::size_t open = pattern.find('{'); open != pattern.npos; open = pattern.find('{', open + 1)) {
    const std::size_t close = pattern.find('}', open);
    if (close == pattern.npos) break;
    const auto inside = alternatives(std::string_view(pattern).substr(open + 1, close - open - 1));
    if (inside.empty()) continue;
    const std::vector<std::string> rest = expand_braces(pattern.substr(close + 1));
    if (static_cast<std::int64_t>(inside.size() * rest.size()) > most_names)
      throw UserError(cat(pattern, ": stands for more than ", most_names, " files"));
    std::vector<std::string> names;
    for (const std::string& middle : inside)
      for (const std::string& end : rest) names.push_back(pattern.substr(0, open) + middle + end);
    return names;
  }
  return {pattern};
}

std::vector<std::string> find_shards(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_directory(path, error)) return {path};
  Paths shards;
  for (const std::string& name : expand_braces(path)) {
    if (!fs::is_directory(name, error) && name.find_first_of("*?[") == name.npos) {
      shards.push_back(name);
      continue;
    }
    const std::size_t before = shards.size();
    for (const std::string& file : find_data_files(name))
      if (is_shard(file)) shards.push_back(file);
    if (shards.size() == before)
      throw UserError(cat(name, ": holds no shard (*.tar); name a folder or a pattern of tar files"));
  }
  return shards;
}

std::vector<std::string> find_shards(const DataConfig& data, const DataSourceConfig& source) {
  if (source.has_labels()) return data.kind == DataKind::webdataset ? find_shards(source.path) : Paths{};
  if (!std::ranges::all_of(source.inputs, names_shards)) return {};
  Paths shards;
  for (const std::string& input : source.inputs)
    std::ranges::move(find_shards(input), std::back_inserter(shards));
  return shards;
}

}  // namespace flotilla
