// SPDX-License-Identifier: Apache-2.0
#include "src/data/augmented_dataset.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace flotilla {

namespace {

constexpr std::uint64_t stream = 1;  // of random_augmentation; images draw crop and colours from stream 0

std::uint8_t nearest_byte_to_0(float factor, float offset) {
  return static_cast<std::uint8_t>(std::clamp(std::round(-offset / factor), 0.0F, 255.0F));
}

class AugmentedDataset final : public Dataset {
 public:
  AugmentedDataset(std::unique_ptr<Dataset> images, const AugmentationSpec& spec, const ByteScaling& scaling)
      : images_(std::move(images)), spec_(spec) {
    require(sample_shape().rank() == 3 && channels() <= erased_bytes_.size(),
            "only images are augmented, got samples ", sample_shape().text());
    for (std::size_t c = 0; c < channels(); ++c) {
      erased_bytes_[c] = nearest_byte_to_0(scaling.factor[c], scaling.offset[c]);
      erased_[c] = static_cast<float>(erased_bytes_[c]) * scaling.factor[c] + scaling.offset[c];
      black_[c] = scaling.offset[c];
    }
  }

  std::int64_t size() const override { return images_->size(); }
  const Shape& sample_shape() const override { return images_->sample_shape(); }
  std::string description() const override {
    std::string text = images_->description();
    if (spec_.padding > 0) text += cat(", moved by up to ", spec_.padding, " pixels");
    if (spec_.erase > 0.0) text += cat(", a part erased with probability ", spec_.erase);
    return text;
  }
  std::string name(std::int64_t i) const override { return images_->name(i); }
  void identify(std::span<const std::int64_t> samples, Checksum& sum) const override {
    images_->identify(samples, sum);
  }
  std::optional<ByteScaling> scaling() const override { return images_->scaling(); }

  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    const std::int32_t label = images_->read(i, variation, to);
    const Augmentation augmentation = draw(variation);
    const std::size_t plane = to.size() / channels();
    for (std::size_t c = 0; c < channels(); ++c) {
      augment<float>(augmentation, {.values = to.subspan(c * plane, plane),
                                    .width = sample_shape()[2],
                                    .black = std::span(black_).subspan(c, 1),
                                    .erased = std::span(erased_).subspan(c, 1)});
    }
    return label;
  }

  std::int32_t read_bytes(std::int64_t i, std::uint64_t variation,
                          std::span<std::uint8_t> to) const override {
    const std::int32_t label = images_->read_bytes(i, variation, to);
    augment<std::uint8_t>(draw(variation), {.values = to,
                                            .width = sample_shape()[2],
                                            .black = std::span(black_bytes_).first(channels()),
                                            .erased = std::span(erased_bytes_).first(channels())});
    return label;
  }

 private:
  std::size_t channels() const { return static_cast<std::size_t>(sample_shape()[0]); }
  Augmentation draw(std::uint64_t variation) const {
    Random random(variation, random_augmentation, stream);
    return draw_augmentation(random, sample_shape()[1], sample_shape()[2], spec_);
  }

  std::unique_ptr<Dataset> images_;
  AugmentationSpec spec_;
  std::array<float, 4> black_{};
  std::array<float, 4> erased_{};
  std::array<std::uint8_t, 4> black_bytes_{};
  std::array<std::uint8_t, 4> erased_bytes_{};
};

}  // namespace

std::unique_ptr<Dataset> augmented(std::unique_ptr<Dataset> images, const AugmentationSpec& spec,
                                   const ByteScaling& scaling) {
  return std::make_unique<AugmentedDataset>(std::move(images), spec, scaling);
}

}  // namespace flotilla
