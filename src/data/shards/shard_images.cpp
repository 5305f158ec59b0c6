// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/shard_images.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/data/run_on_threads.hpp"
#include "src/data/shards/shard_files.hpp"
#include "src/data/shards/shard_index.hpp"
#include "src/data/shards/tar.hpp"
#include "src/files/folders.hpp"
#include "src/observe/progress_line.hpp"

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

namespace {

constexpr std::size_t max_open_shards = 256;
/// The part of the host's free memory that images may take up before they are read.
constexpr std::int64_t share_of_memory = 4;

/// @throws UserError unless the shard has the header of a file of that size before the image
void check_header(const File& shard, const PackedImage& image, const std::string& index) {
  std::vector<std::byte> block(tar::block_bytes);
  std::optional<tar::Header> header;
  if (image.begin >= tar::block_bytes) {
    shard.read(image.begin - tar::block_bytes, block);
    header = tar::parse_header(block);
  }
  if (!header || header->bytes != image.bytes)
    throw UserError(cat(config::printable(shard.name()), ", byte ", image.begin, ": its index ",
                        config::printable(index), " says that ", config::quoted(image.name), " of ",
                        image.bytes,
                        " bytes begins there, which it does not: one of the two is of another packing; pack "
                        "again, or remove the index: the headers of the shard are read then"));
}

/// An image of all shards.
struct PackedEntry {
  std::int64_t begin = 0;
  std::uint32_t bytes = 0;
  std::int32_t label = 0;
  std::uint64_t name_end = 0;  ///< Position in the text of all names
};

class ShardImages final : public ImageSource {
 public:
  ShardImages(std::string origin, const ShardOptions& options)
      : origin_(std::move(origin)),
        left_out_(options.left_out),
        shards_(max_open_shards),
        ahead_(shards_, available_memory_bytes() / share_of_memory /
                            std::max<std::int64_t>(options.ranks_on_host, 1)) {}

  void add(const std::string& path, const FileStamp& stamp, const ShardIndex& index, bool labelled) {
    shards_.add(path, stamp);
    firsts_.push_back(size());
    left_out_.add(index.left_out);
    for (const PackedImage& image : index.images) {
      names_ += image.name;
      entries_.push_back({.begin = image.begin,
                          .bytes = static_cast<std::uint32_t>(image.bytes),
                          .label = labelled ? image.label : 0,
                          .name_end = names_.size()});
    }
  }

  std::int64_t size() const override { return std::ssize(entries_); }
  std::string description() const override {
    return cat(size(), size() == 1 ? " image in " : " images in ", firsts_.size(),
               firsts_.size() == 1 ? " shard: " : " shards: ", origin_);
  }
  std::string left_out() const override { return left_out_.text(); }
  std::string origin() const override { return origin_; }
  std::int32_t label(std::int64_t i) const override { return entry(i).label; }
  std::string name(std::int64_t i) const override {
    const std::uint64_t begin = i == 0 ? 0 : entry(i - 1).name_end;
    return names_.substr(begin, entry(i).name_end - begin);
  }
  std::string place(std::int64_t i) const override {
    return cat(config::printable(shards_.path(shard_of(i))), ", byte ", entry(i).begin, ": ",
               config::printable(name(i)), ": ");
  }
  std::int64_t bytes(std::int64_t i) const override { return entry(i).bytes; }
  void read(std::int64_t i, std::vector<std::byte>& to) const override {
    to.resize(entry(i).bytes);
    shards_.open(shard_of(i))->read(entry(i).begin, to);
    ahead_.has_read(std::ssize(to));
  }
  void will_read(std::int64_t first, std::int64_t count) const override {
    const std::int64_t end = std::min(first + count, size());
    while (first < end) {
      const std::size_t shard = shard_of(first);
      const std::int64_t last = std::min(end, shard + 1 < firsts_.size() ? firsts_[shard + 1] : size()) - 1;
      ahead_.fetch(shard, entry(first).begin, entry(last).begin + entry(last).bytes - entry(first).begin);
      first = last + 1;
    }
  }

 private:
  const PackedEntry& entry(std::int64_t i) const { return entries_[static_cast<std::size_t>(i)]; }
  std::size_t shard_of(std::int64_t i) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(firsts_, i) - firsts_.begin()) - 1;
  }

  std::string origin_;
  LeftOut left_out_;
  OpenFiles shards_;
  std::vector<std::int64_t> firsts_;  ///< The first image of each shard
  std::vector<PackedEntry> entries_;
  std::string names_;
  mutable BackgroundReader ahead_;  // changes no image
};

/// The contents of a shard.
struct OpenedShard {
  FileStamp stamp;
  ShardIndex index;
  MistakeList mistakes;
};

void check_labels(const std::string& shard, const ShardOptions& options, OpenedShard& opened) {
  for (const PackedImage& image : opened.index.images) {
    if (0 <= image.label && image.label < options.classes) continue;
    opened.mistakes.add(image.label < 0
                            ? cat(config::printable(shard), ", byte ", image.begin, ": ",
                                  config::quoted(image.name),
                                  " has no label; write it into a file of its key that ends in .cls")
                            : cat(config::printable(shard), ", byte ", image.begin, ": label ", image.label,
                                  " of ", config::quoted(image.name), " is not in 0 … ", options.classes - 1,
                                  " (model.classes = ", options.classes, "); labels count from 0"));
  }
}

OpenedShard open_shard(const std::string& path, const ShardOptions& options) {
  OpenedShard opened;
  try {
    const auto scanned = options.indexes.find(path);
    const bool known = scanned != options.indexes.end();
    if (!known) opened.stamp = open_data_file(path).stamp();
    opened.index = known ? ShardIndex::of_text(scanned->second, path) : read_index(path, opened.mistakes);
    if (known) opened.stamp = {.bytes = opened.index.bytes};
    if (opened.index.bytes != opened.stamp.bytes)
      throw UserError(cat(config::printable(path), ": has ", opened.stamp.bytes, " bytes, and had ",
                          opened.index.bytes, " when it was listed; start again when it is complete"));
    if (options.labelled) check_labels(path, options, opened);
  } catch (const UserError& error) {
    opened.mistakes.add(error.what());
  }
  return opened;
}

}  // namespace

ShardIndex read_index(const std::string& shard, MistakeList& mistakes) {
  const File file = open_data_file(shard);
  const std::string path = index_path(shard);
  if (!is_there(path)) return scan_shard(file, mistakes);
  ShardIndex index = ShardIndex::of_text(open_data_file(path).text(), path);
  if (index.bytes != file.size())
    throw UserError(cat(config::printable(shard), ": has ", file.size(), " bytes, but its index ",
                        config::printable(path), " is of a shard of ", index.bytes,
                        " bytes: it was cut short or replaced; copy both again, or pack again"));
  if (!index.images.empty()) {
    check_header(file, index.images.front(), path);
    check_header(file, index.images.back(), path);
  }
  return index;
}

std::unique_ptr<ImageSource> open_shards(const std::string& origin, const std::vector<std::string>& shards,
                                         const ShardOptions& options) {
  std::vector<OpenedShard> opened(shards.size());
  std::atomic<std::int64_t> done{0};
  ProgressLine progress("reading the indexes of shards", std::ssize(shards), Amount::items);
  run_on_threads(
      shards.size(), static_cast<int>(std::min<std::int64_t>(options.threads, std::ssize(shards))),
      [&](std::size_t k) {
        opened[k] = open_shard(shards[k], options);
        ++done;
      },
      [&] { progress.at(done); });
  MistakeList mistakes;
  auto images = std::make_unique<ShardImages>(origin, options);
  for (std::size_t k = 0; k < shards.size(); ++k) {
    mistakes.add(opened[k].mistakes);
    if (mistakes.empty()) images->add(shards[k], opened[k].stamp, opened[k].index, options.labelled);
    opened[k].index = {};
  }
  mistakes.throw_if_any(origin);
  if (images->size() == 0)
    throw UserError(cat(origin, ": these shards hold no image (KEY.jpg, KEY.jpeg or KEY.png)"));
  return images;
}

}  // namespace flotilla
