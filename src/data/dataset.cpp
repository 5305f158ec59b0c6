// SPDX-License-Identifier: Apache-2.0
#include "src/data/dataset.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/data/arrays/open_arrays.hpp"
#include "src/data/augmentation.hpp"
#include "src/data/clicks/click_dataset.hpp"
#include "src/data/idx_data.hpp"
#include "src/data/images/image_dataset.hpp"
#include "src/data/staging/staged_dataset.hpp"

namespace flotilla {

namespace {

/// Random samples for tests and benchmarks: values uniform in [0, 1), and labels uniform in 0 … classes − 1
/// or `targets` numbers uniform in [0, 1), pure functions of (seed, sample). Needs no memory.
class RandomDataset final : public Dataset {
 public:
  RandomDataset(std::int64_t samples, const Shape& shape, std::int64_t classes, std::int64_t targets,
                std::uint64_t seed)
      : samples_(samples), shape_(shape), classes_(classes), targets_(targets), seed_(seed) {
    require(samples > 0 && (classes > 0 || targets > 0), "random data need samples, and classes or targets");
  }

  std::int64_t size() const override { return samples_; }
  const Shape& sample_shape() const override { return shape_; }
  std::string description() const override {
    return cat(
        samples_, " random samples ", shape_.text(), ", ",
        targets_ > 0 ? cat(targets_, targets_ == 1 ? " target" : " targets") : cat(classes_, " classes"));
  }

  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    require(0 <= i && i < size() && std::ssize(to) == shape_.size(), "sample ", i, " of ", size(),
            " cannot be made in ", to.size(), " floats");
    Random random(seed_, random_data, static_cast<std::uint64_t>(i));
    const std::uint64_t label = targets_ > 0 ? 0 : random.below(static_cast<std::uint64_t>(classes_));
    random.fill(to);
    return static_cast<std::int32_t>(label);
  }

  std::int64_t target_width() const override { return targets_; }
  void read_targets(std::int64_t i, std::span<float> to) const override {
    Random(seed_, random_data, ~static_cast<std::uint64_t>(i)).fill(to);  // another stream than the values'
  }

 private:
  std::int64_t samples_;
  Shape shape_;
  std::int64_t classes_;
  std::int64_t targets_;
  std::uint64_t seed_;
};

std::unique_ptr<Dataset> open_random(const DataConfig& data, const DataSourceConfig& source,
                                     std::int64_t classes, std::int64_t targets, std::uint64_t seed) {
  Shape shape;
  std::string given;
  // One axis less than a tensor may have: the batch comes in front.
  bool good = !data.shape.empty() && data.shape.size() < std::size_t{Shape::max_rank};
  for (const std::int64_t extent : data.shape) {
    given += cat(given.empty() ? "" : ", ", extent);
    good = good && extent > 0;
    if (good) shape.append(extent);
  }
  if (!good) {
    throw UserError(cat("data.shape must be 1 to ", Shape::max_rank - 1,
                        " positive extents of one sample, got [", given, "]; for example [32]"));
  }
  if (source.samples <= 0)
    throw UserError("data.train.samples and data.validation.samples must be positive for random data");
  return std::make_unique<RandomDataset>(source.samples, shape, classes, targets, seed);
}

/// @param own_flips the images flip themselves
AugmentationSpec augmentation_spec(const DataConfig& data, bool own_flips) {
  require(data.erase_area.size() == 2 && data.erase_aspect.size() == 2, "ranges have 2 values");
  return {.flip = own_flips ? 0.0 : data.flip,
          .padding = data.crop_padding,
          .erase = data.erase,
          .area_min = data.erase_area[0],
          .area_max = data.erase_area[1],
          .aspect_min = data.erase_aspect[0],
          .aspect_max = data.erase_aspect[1],
          .operations = {data.rand_augment, data.rand_augment_magnitude}};
}

/// What each operation of the deck needs of the samples. @throws UserError naming the key of the first one
/// that these samples (C,H,W) do not suit, and the data
void check_augmentation(const AugmentationSpec& spec, const Dataset& images) {
  const Shape& shape = images.sample_shape();
  const std::int64_t side = std::min(shape[1], shape[2]);
  const auto need = [&](bool met, const char* key, const auto&... what) {
    if (met) return;
    throw UserError(cat(key, " ", what..., ", and a sample of ", images.description(), " is ", shape.text(),
                        " (channels, height, width): leave it out"));
  };
  need(spec.operations.count == 0 || shape[0] == 1 || shape[0] == 3, "data.rand_augment",
       "changes colours, which needs images of 1 channel (grey) or 3 (red, green, blue)");
  need(spec.padding < side, "data.crop_padding", "= ", spec.padding,
       " moves an image by up to as many pixels, which must be fewer than its height and width");
  need(spec.erase == 0.0 || side > 1, "data.erase",
       "covers a rectangle lower and narrower than the image, which needs 2 x 2 pixels at least");
}

/// @param own_flips the images flip themselves
std::unique_ptr<Dataset> with_augmentation(std::unique_ptr<Dataset> images, const DataConfig& data,
                                           const DatasetUse& use, const ByteScaling& scaling,
                                           bool own_flips) {
  const AugmentationSpec spec = augmentation_spec(data, own_flips);
  if (!use.training || !use.decode || !spec.any()) return images;
  check_augmentation(spec, *images);
  return augmented(std::move(images), spec, scaling);
}

/// Arrays of bytes that are images are augmented as files of images are.
std::unique_ptr<Dataset> open_augmented_arrays(const DataConfig& data, const DataSourceConfig& source,
                                               std::int64_t classes, const DatasetUse& use) {
  auto arrays = open_arrays(data, source, classes, use);
  const std::optional<ByteScaling> scaling = arrays->scaling();
  if (scaling) return with_augmentation(std::move(arrays), data, use, *scaling, false);
  if (use.training && augmentation_spec(data, false).any())
    throw UserError(cat(
        "data.flip, data.crop_padding, data.erase and data.rand_augment are of images of uint8 with 1 to "
        "4 channels, and ",
        arrays->description(), " are none: leave them out",
        data.has_arrays() && !data.channels_last ? ", or set data.channels_last = true for images (N,H,W,C)"
                                                 : ""));
  return arrays;
}

std::unique_ptr<Dataset> open_kind(const DataConfig& data, const DataSourceConfig& source,
                                   std::int64_t classes, std::uint64_t seed, const DatasetUse& use) {
  switch (data.kind) {
    case DataKind::idx: {
      auto digits = open_idx_dataset(source.images, source.labels, classes,
                                     {.mean = data.mean, .std = data.std}, use.inflated);
      const ByteScaling scaling = digits->scaling().value();
      return with_augmentation(std::move(digits), data, use, scaling, false);
    }
    case DataKind::image_list:
    case DataKind::image_folder:
    case DataKind::webdataset:
      return with_augmentation(open_image_dataset(data, source, classes, use), data, use,
                               normalization(transform_spec(data)), true);
    case DataKind::criteo:
    case DataKind::libsvm: return open_click_dataset(data, source, use);
    case DataKind::hdf5:
    case DataKind::numpy:
    case DataKind::cifar: return open_augmented_arrays(data, source, classes, use);
    case DataKind::random: break;
  }
  return open_random(data, source, classes, use.targets, seed);
}

}  // namespace

std::int32_t Dataset::read_bytes(std::int64_t /*i*/, std::uint64_t /*variation*/,
                                 std::span<std::uint8_t> /*to*/) const {
  throw InternalError(cat("samples of ", description(), " are not bytes"));
}

void Dataset::read_targets(std::int64_t /*i*/, std::span<float> /*to*/) const {
  throw InternalError(cat("samples of ", description(), " have no targets but labels"));
}

std::vector<std::int64_t> BagSource::deal(ShardBy /*how*/, std::int64_t /*workers*/) const {
  throw InternalError("these samples do not lie in files");
}

std::unique_ptr<BagReader> BagSource::bag_reader() const {
  throw InternalError("these samples have no bags");
}

std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const DataSourceConfig& source,
                                      std::int64_t classes, std::uint64_t seed, const DatasetUse& use) {
  const auto open = [&] { return open_kind(data, source, classes, seed, use); };
  auto opened = source.staged_below.empty() ? open() : open_staged(source.staged_below, open);
  if (source.has_labels() && opened->target_width() != use.targets) {
    const auto kind = [](std::int64_t targets) {
      return targets == 0 ? std::string("labels of classes") : cat(targets, " numbers a sample");
    };
    throw UserError(cat("the targets of ", opened->description(), " are ", kind(opened->target_width()),
                        ", and the model is to predict ", kind(use.targets),
                        "; see model.loss, model.outputs and data.targets"));
  }
  return opened;
}

}  // namespace flotilla
