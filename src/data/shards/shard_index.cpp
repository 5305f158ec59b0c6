// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/shard_index.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <system_error>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/images/image_source.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

namespace {

constexpr std::string_view first_line = "flotilla shard index 1\n";
constexpr std::size_t checksum_line_bytes = 17;

/// The fields of an index, from its beginning to its end.
class Fields {
 public:
  explicit Fields(std::string_view text) : rest_(text) {}
  bool ended() const { return rest_.empty(); }
  bool failed() const { return failed_; }
  std::int64_t number(char behind) {
    std::int64_t value = 0;
    const std::string_view text = word(behind);
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    failed_ = failed_ || error != std::errc() || stop != text.data() + text.size();
    return value;
  }
  std::uint64_t checksum(char behind) {
    const std::optional<std::uint64_t> value = from_hexadecimal(std::string(word(behind)));
    failed_ = failed_ || !value;
    return value.value_or(0);
  }
  std::string_view word(char behind) {
    const std::size_t end = rest_.find(behind);
    if (end == std::string_view::npos) {
      failed_ = true;
      return {};
    }
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

std::string checksum_line(std::string_view text) {
  return hexadecimal(checksum_of(std::as_bytes(std::span(text)))) + "\n";
}

bool fits_in_shard(const PackedImage& image, std::int64_t shard_bytes) {
  return image.begin >= 0 && image.bytes >= 0 && image.bytes <= std::min(shard_bytes, most_image_bytes) &&
         image.begin <= shard_bytes - image.bytes && image.label >= -1;
}

}  // namespace

std::string ShardIndex::text() const {
  std::string text =
      cat(first_line, bytes, ' ', hexadecimal(checksum), ' ', hexadecimal(sources), ' ', images.size(), '\n');
  for (const PackedImage& image : images) {
    for (const std::int64_t number : {image.begin, image.bytes, std::int64_t{image.label}})
      (text += std::to_string(number)) += ' ';
    (text += image.name) += '\n';
  }
  text += left_out.lines();
  return text + checksum_line(text);
}

ShardIndex ShardIndex::of_text(std::string_view text, const std::string& path) {
  const auto fail = [&](const char* what) {
    throw UserError(cat(config::printable(path), ": ", what,
                        "; pack again, or remove it: the headers of the shard are read then"));
  };
  if (!text.starts_with(first_line) || text.size() < first_line.size() + checksum_line_bytes)
    fail("is not the index of a shard");
  const std::string_view lines = text.substr(0, text.size() - checksum_line_bytes);
  if (text.substr(lines.size()) != checksum_line(lines)) fail("is damaged: its checksum does not fit");
  Fields fields(lines.substr(first_line.size()));
  ShardIndex index;
  index.bytes = fields.number(' ');
  index.checksum = fields.checksum(' ');
  index.sources = fields.checksum(' ');
  const std::int64_t count = fields.number('\n');
  while (!fields.ended() && !fields.failed() && std::ssize(index.images) < count) {
    PackedImage image{.begin = fields.number(' '), .bytes = fields.number(' ')};
    const std::int64_t label = fields.number(' ');
    image.label = static_cast<std::int32_t>(label);
    image.name = fields.word('\n');
    if (label != image.label || !fits_in_shard(image, index.bytes))
      fail("has an image that no shard of its size holds");
    index.images.push_back(std::move(image));
  }
  bool understood = true;
  while (!fields.ended() && !fields.failed())
    understood = index.left_out.add_line(fields.word('\n')) && understood;
  if (!understood || fields.failed() || std::ssize(index.images) != count)
    fail("is not the index of a shard");
  return index;
}

std::string index_path(const std::string& shard) {
  return shard + ".index";
}

}  // namespace flotilla
