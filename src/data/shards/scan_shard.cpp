// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/scan_shard.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/data/images/image_source.hpp"
#include "src/data/shards/tar_reader.hpp"
#include "src/data/shown.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t most_label_bytes = 64;

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
  std::string extension(name.substr(point + 1));
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return {name.substr(0, point), std::move(extension)};
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
    if (member.bytes > most_image_bytes)
      return tell(member.begin,
                  cat(config::quoted(member.name), " has ", member.bytes, " bytes, too many for an image"));
    image_.begin = member.begin;
    image_.bytes = member.bytes;
    image_.name = config::printable(member.name);  // one line of an index
  }

  /// At the end of a sample, and after the last one.
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
    if (member.bytes <= most_label_bytes) {
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
                           member.bytes > most_label_bytes ? cat(member.bytes, " bytes") : shown(text)));
    image_.label = 0;  // told once
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
