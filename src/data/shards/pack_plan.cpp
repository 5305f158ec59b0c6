// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/pack_plan.hpp"

#include <algorithm>
#include <cctype>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/images/image_source.hpp"
#include "src/data/shards/tar_format.hpp"

namespace flotilla {

namespace {

constexpr std::size_t key_digits = 9;

std::int64_t member_bytes(std::int64_t contents) {
  return tar::block_bytes + tar::padded(contents);
}

}  // namespace

std::string sample_key(std::int64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(key_digits - std::min(key_digits, digits.size()), '0') + digits;
}

std::string path_json(std::string_view path) {
  std::string text = "{\"path\":\"";
  for (const char letter : path) {
    if (letter == '"' || letter == '\\') text += '\\';
    text += letter;
  }
  return text + "\"}\n";
}

std::vector<std::int64_t> cut_into_shards(const ImageList& list, std::span<const std::int64_t> bytes,
                                          std::int64_t shard_bytes) {
  require(list.size() == std::ssize(bytes) && shard_bytes > 0, "no sizes of ", list.size(), " images");
  const auto bytes_of = [&](std::int64_t i) {
    const auto k = static_cast<std::size_t>(i);
    return member_bytes(std::ssize(std::to_string(list.entries[k].label))) + member_bytes(bytes[k]) +
           member_bytes(std::ssize(path_json(list.written(i))));
  };
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < list.size(); ++i) all += bytes_of(i);
  const std::int64_t shards = (all + shard_bytes - 1) / shard_bytes;
  const std::int64_t each = (all + shards - 1) / shards;
  std::vector<std::int64_t> begins;
  std::int64_t before = 0;
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < list.size(); ++i) {
    if (before / each != last) begins.push_back(i);
    last = before / each;
    before += bytes_of(i);
  }
  begins.push_back(list.size());
  return begins;
}

std::int64_t examine_image(const ImageList& list, std::int64_t i, MistakeList& mistakes) {
  const std::string_view written = list.written(i);
  const auto tell = [&](const std::string& what) {
    // To find the line of an image takes time.
    mistakes.add(mistakes.keeps_more() ? list.place(i) + what : what);
    return std::int64_t{0};
  };
  if (!config::is_utf8(written) || std::ranges::any_of(written, [](unsigned char c) { return c < ' '; }))
    return tell(cat(config::quoted(written), " is not one line of UTF-8; rename it"));
  try {
    const std::string path = list.path(i);
    const std::int64_t bytes = open_data_file(path).size();
    if (bytes == 0) return tell(cat(config::printable(path), ": is empty; copy or download it again"));
    if (bytes > most_image_bytes)
      return tell(cat(config::printable(path), ": has ", bytes, " bytes, too many for an image"));
    return bytes;
  } catch (const UserError& error) {
    return tell(config::printable(error.what()));
  }
}

}  // namespace flotilla
