// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/shard_index.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/data/images/image_source.hpp"
#include "src/data/mistake_list.hpp"
#include "src/data/shards/tar.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

namespace {

constexpr std::string_view index_heading = "flotilla shard index 1\n";
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
  return image.begin >= 0 && image.bytes >= 0 && image.bytes <= std::min(shard_bytes, max_image_bytes) &&
         image.begin <= shard_bytes - image.bytes && image.label >= -1;
}

}  // namespace

std::string ShardIndex::text() const {
  std::string text = cat(index_heading, bytes, ' ', hexadecimal(checksum), ' ', hexadecimal(sources), ' ',
                         images.size(), '\n');
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
  if (!text.starts_with(index_heading) || text.size() < index_heading.size() + checksum_line_bytes)
    fail("is not the index of a shard");
  const std::string_view lines = text.substr(0, text.size() - checksum_line_bytes);
  if (text.substr(lines.size()) != checksum_line(lines)) fail("is damaged: its checksum does not fit");
  Fields fields(lines.substr(index_heading.size()));
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

namespace {

constexpr std::int64_t max_label_bytes = 64;

/// A member's name, cut as Python's webdataset does: the key with its folders, the extension in small
/// letters. Both are empty where a name has no extension, or no key before it.
struct KeyedName {
  std::string_view key;
  std::string extension;
};

KeyedName keyed(std::string_view name) {
  const std::size_t base = name.find_last_of('/') + 1;  // 0 where there is none
  const std::size_t point = name.find('.', base);
  if (point == name.npos || point == base) return {};
  return {name.substr(0, point), config::lower_case(name.substr(point + 1))};
}

/// Collects the members of one sample after another.
class SampleCollector {
 public:
  SampleCollector(const std::string& shard, ShardIndex& index, MistakeList& mistakes)
      : shard_(shard), index_(index), mistakes_(mistakes) {}

  void take(const tar::Member& member, tar::Reader& reader) {
    if (reader.archive() != archive_) begin_archive(reader.archive());
    const KeyedName name = keyed(member.name);
    if (name.key.empty()) return index_.left_out.add("file without a key", member.name);
    if (name.key != key_) begin(std::string(name.key));
    const std::string ending = "." + name.extension;
    if (!is_image_ending(ending) && name.extension != "cls") {
      if (name.extension != "json" && name.extension != "txt") other_ = name.extension;
      const std::string_view foreign = foreign_image_of(ending);
      return index_.left_out.add(foreign.empty() ? ending + " file" : std::string(foreign), member.name,
                                 foreign.empty() ? "" : "convert it to JPEG or PNG");
    }
    if (member.type != '0' && member.type != '7')
      return tell(member.begin, cat(config::quoted(member.name),
                                    " is a link or has holes; write the shard with whole files"));
    if (name.extension == "cls") return take_label(member, reader);
    if (images_++ > 0)
      return tell(member.begin,
                  cat("the sample ", config::quoted(key_), " has two images; give each its own key"));
    if (member.bytes > max_image_bytes)
      return tell(member.begin,
                  cat(config::quoted(member.name), " has ", member.bytes, " bytes, too many for an image"));
    image_.begin = member.begin;
    image_.bytes = member.bytes;
    image_.name = config::printable(member.name);  // one line of an index
  }

  /// To be called at the end of each sample, and after the last one.
  void finish() {
    if (images_ == 1) index_.images.push_back(image_);
    if (images_ == 0 && (labels_ > 0 || !other_.empty()))
      tell(began_, cat("the sample ", config::quoted(key_), " has no image (.jpg, .jpeg, .png)",
                       other_.empty() ? "" : cat(", but .", config::printable(other_)),
                       "; convert it or leave it out"));
    key_.clear();
    other_.clear();
    image_ = {.label = -1};
    images_ = labels_ = 0;
  }
  void set_position(std::int64_t at) { at_ = at; }

 private:
  /// Tar files that were joined may have the same keys.
  void begin_archive(int archive) {
    finish();
    keys_.clear();
    archive_ = archive;
  }
  void begin(std::string key) {
    finish();
    key_ = std::move(key);
    began_ = at_;
    if (!keys_.insert(key_).second)
      tell(at_, cat("the key ", config::quoted(key_),
                    " occurs again; the files of a sample must lie one behind another, and each sample needs "
                    "a key of its own"));
  }

  void take_label(const tar::Member& member, tar::Reader& reader) {
    if (labels_++ > 0) return tell(member.begin, cat("the sample ", config::quoted(key_), " has two labels"));
    std::string_view text;
    if (member.bytes <= max_label_bytes) {
      const auto bytes = reader.contents(member);
      text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    constexpr std::string_view blanks = " \t\r\n";
    const std::size_t first = std::min(text.find_first_not_of(blanks), text.size());
    const std::size_t end = text.find_last_not_of(blanks) + 1;
    const std::string_view word = text.substr(first, std::max(first, end) - first);
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), image_.label);
    if (error == std::errc() && stop == word.data() + word.size() && image_.label >= 0) return;
    tell(member.begin, cat(config::quoted(member.name), " must hold a label, a whole number from 0 on, got ",
                           member.bytes > max_label_bytes ? cat(member.bytes, " bytes") : shown(text)));
    image_.label = 0;  // reported once
  }

  void tell(std::int64_t at, const std::string& what) {
    mistakes_.add(cat(config::printable(shard_), ", byte ", at, ": ", what));
  }

  const std::string& shard_;
  ShardIndex& index_;
  MistakeList& mistakes_;
  std::unordered_set<std::string> keys_;
  std::string key_;
  std::string other_;  ///< An extension that is neither an image's nor a label's nor passed over
  PackedImage image_{.label = -1};
  int images_ = 0;
  int labels_ = 0;
  int archive_ = 0;
  std::int64_t at_ = 0;
  std::int64_t began_ = 0;
};

}  // namespace

ShardIndex scan_shard(const File& shard, MistakeList& mistakes) {
  ShardIndex index{.bytes = shard.size()};
  SampleCollector samples(shard.name(), index, mistakes);
  tar::Reader reader(shard);
  tar::Member member;
  for (std::int64_t at = 0; reader.next(member); at = reader.at()) {
    samples.set_position(at);
    if (member.type != '5') samples.take(member, reader);
  }
  samples.finish();
  if (const std::int64_t bytes = reader.trailing_bytes(); bytes > 0)
    index.left_out.add("trailing byte", shard.name(), "", bytes);
  return index;
}

}  // namespace flotilla
