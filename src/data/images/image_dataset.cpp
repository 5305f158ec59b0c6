// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/image_dataset.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "src/config/values.hpp"
#include "src/data/augmentation.hpp"
#include "src/data/data_file.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/images/image_decoder.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/data/images/image_list.hpp"
#include "src/data/images/image_source.hpp"
#include "src/data/shards/shard_images.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

namespace {

/// Caches the bytes of files in memory, each when it is first read. Safe from several threads at once.
class FileCache {
 public:
  /// Looks up the size of every file; a missing file is not cached.
  /// @throws UserError if `ranks_on_host` such caches do not fit into the memory that is free now.
  FileCache(const ImageSource& images, std::int64_t ranks_on_host);
  std::int64_t bytes() const { return static_cast<std::int64_t>(begins_.back()); }
  /// The bytes of file i; empty if they are not cached yet.
  std::span<const std::byte> find(std::int64_t i) const;
  /// Caches the bytes of file i, unless they are cached or the file's size has changed since the start.
  void keep(std::int64_t i, std::span<const std::byte> bytes);

 private:
  enum State : std::uint8_t { absent, being_written, kept };
  std::vector<std::uint64_t> begins_;
  std::vector<std::atomic<std::uint8_t>> states_;
  std::unique_ptr<std::byte[]> memory_;  // pages come with their first use
};

FileCache::FileCache(const ImageSource& images, std::int64_t ranks_on_host)
    : begins_(1, 0), states_(static_cast<std::size_t>(images.size())) {
  begins_.reserve(static_cast<std::size_t>(images.size()) + 1);
  for (std::int64_t i = 0; i < images.size(); ++i)
    begins_.push_back(begins_.back() + static_cast<std::uint64_t>(images.bytes(i)));
  const std::int64_t available = available_memory_bytes();
  if (bytes() > available / ranks_on_host) {
    throw UserError(cat(images.origin(), ": data.cache = \"files\" would keep ", bytes_text(bytes()),
                        ranks_on_host > 1 ? cat(" on each of ", ranks_on_host, " ranks of a host") : "",
                        ", but only ", bytes_text(available),
                        " of memory are free; use data.cache = \"none\" (the system caches files too)",
                        ranks_on_host > 1 ? " or fewer ranks with more threads" : ""));
  }
  memory_.reset(new std::byte[begins_.back()]);
}

std::span<const std::byte> FileCache::find(std::int64_t i) const {
  const auto k = static_cast<std::size_t>(i);
  if (states_[k].load(std::memory_order_acquire) != kept) return {};
  return {memory_.get() + begins_[k], static_cast<std::size_t>(begins_[k + 1] - begins_[k])};
}

void FileCache::keep(std::int64_t i, std::span<const std::byte> bytes) {
  const auto k = static_cast<std::size_t>(i);
  if (bytes.size() != begins_[k + 1] - begins_[k]) return;
  std::uint8_t expected = absent;
  if (!states_[k].compare_exchange_strong(expected, being_written, std::memory_order_relaxed)) return;
  std::copy(bytes.begin(), bytes.end(), memory_.get() + begins_[k]);
  states_[k].store(kept, std::memory_order_release);
}

class FileImages final : public ImageSource {
 public:
  explicit FileImages(std::shared_ptr<const ImageList> list) : whole_(std::move(list)), list_(*whole_) {}

  std::int64_t size() const override { return list_.size(); }
  std::string description() const override { return list_.description; }
  std::string left_out() const override { return list_.left_out.text(); }
  std::string origin() const override { return list_.source; }
  std::int32_t label(std::int64_t i) const override {
    return list_.entries[static_cast<std::size_t>(i)].label;
  }
  std::string name(std::int64_t i) const override { return std::string(list_.written(i)); }
  std::string place(std::int64_t i) const override {
    return cat(list_.place(i), config::printable(list_.path(i)), ": ");
  }
  std::int64_t bytes(std::int64_t i) const override {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(list_.path(i), error);
    return error ? 0 : static_cast<std::int64_t>(size);
  }
  void read(std::int64_t i, std::vector<std::byte>& to) const override {
    try {
      const File file = open_data_file(list_.path(i));
      if (file.size() > max_image_bytes)
        throw BadImage(cat("has ", file.size(), " bytes, too many for an image"));
      to.resize(static_cast<std::size_t>(file.size()));
      file.read(0, to);
    } catch (const UserError& error) {  // names the path
      throw UserError(cat(list_.place(i), error.what()));
    }
  }

 private:
  std::shared_ptr<const ImageList> whole_;
  const ImageList& list_;
};

class ImageDataset final : public Dataset {
 public:
  ImageDataset(std::unique_ptr<const ImageSource> images, std::unique_ptr<const ImageTransform> transform,
               std::int64_t ranks_cached, const char* remedy)
      : images_(std::move(images)), transform_(std::move(transform)), remedy_(remedy) {
    if (ranks_cached > 0) cache_.emplace(*images_, ranks_cached);
    const Shape shape = transform_->sample_shape();
    std::int64_t classes = 0;
    for (std::int64_t i = 0; i < images_->size(); ++i)
      classes = std::max<std::int64_t>(classes, images_->label(i) + 1);
    set_facts(
        {.size = images_->size(),
         .shape = shape,
         .description = cat(images_->description(), ", as ", shape.text(),
                            cache_ ? cat(", ", bytes_text(cache_->bytes()), " kept in memory once read") : "",
                            images_->left_out()),
         .number_type = "uint8",
         .scaling = transform_->scaling(),
         .classes = classes,
         .label_of = [this](std::int64_t i) { return images_->label(i); }});
  }

  std::string name(std::int64_t i) const override { return images_->name(i); }

  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    return read_image(i, to, [&](auto file) { transform_->apply(file, variation, to); });
  }
  std::int32_t read_bytes(std::int64_t i, std::uint64_t variation,
                          std::span<std::uint8_t> to) const override {
    return read_image(i, to, [&](auto file) { transform_->apply_bytes(file, variation, to); });
  }

  void will_read(std::int64_t first, std::int64_t count) const override { images_->will_read(first, count); }

  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    for (std::int64_t i = 0; i < size(); ++i) {
      const std::int32_t label = images_->label(i);
      sum.add(std::as_bytes(std::span(&label, 1)));
    }
    for (const std::int64_t i : samples) {
      std::span<const std::byte> file;
      std::int64_t bytes = 0;
      try {
        file = bytes_of(i);
        bytes = std::ssize(file);
      } catch (const std::runtime_error&) {
        bytes = -1;  // cannot be read: it may be replaced (data.on_bad_image)
      }
      sum.add(std::as_bytes(std::span(&bytes, 1)));
      sum.add(file);
    }
  }

 private:
  /// Calls `decode` with the bytes of the file of sample i. @returns the label
  template <class Value, class Decode>
  std::int32_t read_image(std::int64_t i, std::span<Value> to, const Decode& decode) const {
    require(0 <= i && i < size() && std::ssize(to) == sample_shape().size(), "sample ", i, " of ", size(),
            " cannot be read into ", to.size(), " values");
    try {
      decode(bytes_of(i));
    } catch (const BadImage& error) {
      throw BadSample(cat(images_->place(i), error.what(), "; ", remedy_));
    } catch (const UserError& error) {
      throw BadSample(cat(config::printable(error.what()), "; ", remedy_));
    }
    return images_->label(i);
  }

  /// Valid until this thread's next call.
  std::span<const std::byte> bytes_of(std::int64_t i) const {
    thread_local std::vector<std::byte> buffer;  // grows to the largest file
    if (cache_) {
      if (const auto cached = cache_->find(i); !cached.empty()) return cached;
    }
    images_->read(i, buffer);
    if (cache_) cache_->keep(i, buffer);
    return buffer;
  }

  std::unique_ptr<const ImageSource> images_;
  std::unique_ptr<const ImageTransform> transform_;
  const char* remedy_;
  mutable std::optional<FileCache> cache_;  // its contents are files'
};

std::array<float, 3> three_colours(const std::vector<double>& values) {
  require(values.size() == 3, "three colours have three values, got ", values.size());
  return {static_cast<float>(values[0]), static_cast<float>(values[1]), static_cast<float>(values[2])};
}

/// A remedy for an image that cannot be read.
const char* remedy(const DataConfig& data, const DataSourceConfig& source, const DatasetUse& use) {
  if (!source.has_labels() && data.on_bad_image == OnBadImage::error)
    return "repair it, leave it out or add data.on_bad_image=replace, which predicts all others";
  if (!use.training && source.has_labels()) return "repair it or leave it out: validation counts every image";
  if (data.on_bad_image == OnBadImage::replace) return "repair it or leave it out";
  return "repair it, leave it out or set data.on_bad_image = \"replace\"";
}

/// A file of another ending than images have, alone, is a list of them.
bool names_list(const std::vector<std::string>& inputs) {
  std::error_code error;
  return inputs.size() == 1 && !has_image_ending(inputs.front()) &&
         !std::filesystem::is_directory(inputs.front(), error);
}

/// As list_images(), of what the files have now.
ImageList read_images(const DataConfig& data, const DataSourceConfig& source, std::int64_t classes,
                      const DatasetUse& use) {
  const bool missing_allowed =
      (use.training || !source.has_labels()) && data.on_bad_image == OnBadImage::replace;
  if (!source.has_labels()) {
    if (!names_list(source.inputs)) return list_unlabelled_images(source.inputs);
    return read_image_list(source.path, {.root = {},
                                         .classes = classes,
                                         .missing_allowed = missing_allowed,
                                         .root_key = {},
                                         .labelled = false});
  }
  if (data.kind == DataKind::image_folder) {
    return read_image_folder(
        source.path,
        {.classes = classes, .empty_classes = !use.training, .same_as = use.training ? "" : data.train.path});
  }
  return read_image_list(source.path,
                         {.root = source.root,
                          .classes = classes,
                          .unique = !use.training,
                          .below = source.staged_below,
                          .missing_allowed = missing_allowed,
                          .root_key = use.training ? "data.train.root" : "data.validation.root"});
}

/// Leaves samples as they were.
class NoTransform final : public ImageTransform {
 public:
  explicit NoTransform(std::int64_t size) : shape_{3, size, size} {}
  Shape sample_shape() const override { return shape_; }
  void apply(std::span<const std::byte> /*file*/, std::uint64_t /*variation*/,
             std::span<float> /*to*/) const override {}

 private:
  Shape shape_;
};

FoundFiles shard_files(const DataRequest& request) {
  if (request.use.files != nullptr) return *request.use.files;
  FoundFiles found;
  found.paths = find_shards(request.data, request.source, &found.left_out);
  return found;
}

std::unique_ptr<ImageSource> open_source(const DataConfig& data, const DataSourceConfig& source,
                                         std::int64_t classes, const DatasetUse& use) {
  const auto [shards, left_out] = shard_files({data, source, classes, 0, use});
  if (!shards.empty())
    return open_shards(source.has_labels() ? source.path : fmt::format("{}", fmt::join(source.inputs, ", ")),
                       shards,
                       {.classes = classes,
                        .labelled = source.has_labels(),
                        .threads = data.threads,
                        .ranks_on_host = use.ranks_on_host,
                        .indexes = use.shard_indexes,
                        .left_out = left_out});
  return make_file_images(list_images(data, source, classes, use));
}

}  // namespace

std::shared_ptr<const ImageList> list_images(const DataConfig& data, const DataSourceConfig& source,
                                             std::int64_t classes, const DatasetUse& use) {
  return use.images != nullptr ? use.images
                               : std::make_shared<const ImageList>(read_images(data, source, classes, use));
}

std::unique_ptr<ImageSource> make_file_images(std::shared_ptr<const ImageList> list) {
  return std::make_unique<FileImages>(std::move(list));
}

std::unique_ptr<Dataset> make_image_dataset(std::unique_ptr<const ImageSource> images,
                                            std::unique_ptr<const ImageTransform> transform,
                                            std::int64_t ranks_cached, const char* remedy) {
  return std::make_unique<ImageDataset>(std::move(images), std::move(transform), ranks_cached, remedy);
}

ImageTransformSpec transform_spec(const DataConfig& data) {
  require(data.crop.area.size() == 2 && data.crop.aspect.size() == 2 && data.color_jitter.size() == 4,
          "ranges of a crop have 2 values, a jitter has 4");
  return {.size = data.image_size,
          .short_side = data.short_side,
          .filter = data.resize_filter,
          .area_min = data.crop.area[0],
          .area_max = data.crop.area[1],
          .aspect_min = data.crop.aspect[0],
          .aspect_max = data.crop.aspect[1],
          .flip = data.flip,
          .jitter = {.brightness = data.color_jitter[0],
                     .contrast = data.color_jitter[1],
                     .saturation = data.color_jitter[2],
                     .hue = data.color_jitter[3]},
          .mean = three_colours(data.image_mean),
          .deviation = three_colours(data.image_std),
          .exif_orientation = data.exif_orientation,
          .max_pixels = data.max_pixels};
}

namespace {

std::unique_ptr<Dataset> open_images(const DataRequest& request) {
  const auto& [data, source, classes, seed, use] = request;
  const ImageTransformSpec spec = transform_spec(data);
  std::unique_ptr<const ImageTransform> transform;
  if (!use.decode)
    transform = std::make_unique<NoTransform>(spec.size);
  else
    transform = use.training ? make_training_transform(spec) : make_validation_transform(spec);
  auto images =
      make_image_dataset(open_source(data, source, classes, use), std::move(transform),
                         data.cache == CachedFiles::files ? use.ranks_on_host : 0, remedy(data, source, use));
  return with_augmentation(std::move(images), request, normalization(spec), true);
}

void list_image_files(const DataRequest& request, SourceFiles& found) {
  const auto& [data, source, classes, seed, use] = request;
  const std::vector<std::string> shards = find_shards(data, source, &found.left_out);
  for (const std::string& shard : shards) {
    found.may_be_missing.insert(index_path(shard));
    found.files.insert(shard);
  }
  if (!shards.empty()) return;
  const std::shared_ptr<const ImageList> all = list_images(data, source, classes, use);
  const ImageList& list = *all;
  found.left_out.add(list.left_out);
  for (const ImageList::Part& part : list.parts) {
    found.folders.insert(part.root);
    found.files.insert(part.source);
  }
  const bool missing_allowed = use.training && list.is_file() && data.on_bad_image == OnBadImage::replace;
  for (std::int64_t i = 0; i < list.size(); ++i)
    (missing_allowed ? found.may_be_missing : found.files).insert(list.path(i));
  if (list.is_file()) return;
  found.folders.insert(list.root);
  std::error_code error;  // the folder was read a moment ago
  for (std::filesystem::directory_iterator at(list.root, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_directory(ignored) && !is_of_system(at->path().filename().string()))
      found.folders.insert(at->path().string());
  }
}

constexpr DataReader image_reader(DataKind kind) {
  return {.kind = kind,
          .open = open_images,
          .list_files = list_image_files,
          .find_files = shard_files,
          .form =
              [](const DataRequest& request) {
                const std::int64_t size = request.data.image_size;
                return SampleForm{.shape = {3, size, size}, .bytes = true};
              },
          .scaling =
              [](const DataConfig& data, bool /*bytes*/) {
                return GivenScaling{data.image_mean, data.image_std};
              },
          // The file that scripts/make_lists.sh and `flotilla pack` write
          .class_names = [](const DataConfig& data,
                            std::int64_t classes) { return names_beside(data, "classes.txt", classes); },
          .predicts_several = true};
}

/// Whether a line is the name of an image, optionally followed by a label.
bool is_line_of_list(std::string_view line) {
  const std::string_view words = line.substr(0, line.find_last_not_of(" \t") + 1);
  const std::size_t blank = std::min(words.find_last_of(" \t"), words.size());
  return has_image_ending(std::string(words.substr(0, words.find_last_not_of(" \t", blank) + 1))) ||
         has_image_ending(std::string(words));
}

}  // namespace

const DataReader image_list_reader = [] {
  DataReader reader = image_reader(DataKind::image_list);
  reader.is_line = is_line_of_list;
  reader.file = {.format = FileFormat::list,
                 .name = "a list of images",
                 .advice = "data.kind = \"image-list\" reads it"};
  return reader;
}();

const DataReader image_folder_reader = [] {
  DataReader reader = image_reader(DataKind::image_folder);
  reader.class_folders = true;
  reader.class_names = [](const DataConfig& data, std::int64_t /*classes*/) {
    return class_folders(data.train.path);
  };
  return reader;
}();

const DataReader webdataset_reader = image_reader(DataKind::webdataset);

}  // namespace flotilla
