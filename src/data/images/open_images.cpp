// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "kernels/error.hpp"
#include "src/data/images/file_images.hpp"
#include "src/data/images/image_dataset.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/data/shards/find_shards.hpp"
#include "src/data/shards/shard_images.hpp"

namespace flotilla {

namespace {

std::array<float, 3> three_colours(const std::vector<double>& values) {
  require(values.size() == 3, "three colours have three values, got ", values.size());
  return {static_cast<float>(values[0]), static_cast<float>(values[1]), static_cast<float>(values[2])};
}

/// What a user can do about an image that cannot be read.
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

}  // namespace

ImageList list_images(const DataConfig& data, const DataSourceConfig& source, std::int64_t classes,
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

namespace {

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

std::unique_ptr<ImageSource> open_source(const DataConfig& data, const DataSourceConfig& source,
                                         std::int64_t classes, const DatasetUse& use) {
  LeftOut left_out;
  const std::vector<std::string> shards = find_shards(data, source, &left_out);
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

ImageTransformSpec transform_spec(const DataConfig& data) {
  require(data.crop_area.size() == 2 && data.crop_aspect.size() == 2 && data.color_jitter.size() == 4,
          "ranges of a crop have 2 values, a jitter has 4");
  return {.size = data.image_size,
          .short_side = data.short_side,
          .filter = data.resize_filter,
          .area_min = data.crop_area[0],
          .area_max = data.crop_area[1],
          .aspect_min = data.crop_aspect[0],
          .aspect_max = data.crop_aspect[1],
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

std::unique_ptr<Dataset> open_image_dataset(const DataConfig& data, const DataSourceConfig& source,
                                            std::int64_t classes, const DatasetUse& use) {
  const ImageTransformSpec spec = transform_spec(data);
  std::unique_ptr<const ImageTransform> transform;
  if (!use.decode)
    transform = std::make_unique<NoTransform>(spec.size);
  else
    transform = use.training ? make_training_transform(spec) : make_validation_transform(spec);
  return make_image_dataset(open_source(data, source, classes, use), std::move(transform),
                            {.ranks_cached = data.cache == CachedFiles::files ? use.ranks_on_host : 0,
                             .remedy = remedy(data, source, use)});
}

}  // namespace flotilla
