// SPDX-License-Identifier: Apache-2.0
#include "src/data/augmented_dataset.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "src/data/wrapped_dataset.hpp"

namespace flotilla {

namespace {

// Streams of random_augmentation; images draw crop and colours from stream 0.
constexpr std::uint64_t stream = 1;
constexpr std::uint64_t operations_stream = 2;

std::uint8_t nearest_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F) + 0.5F);
}

class AugmentedDataset final : public WrappedDataset {
 public:
  AugmentedDataset(std::unique_ptr<Dataset> images, const AugmentationSpec& spec, const ByteScaling& scaling)
      : WrappedDataset(std::move(images)), spec_(spec), scaling_(scaling) {
    require(sample_shape().rank() == 3 && channels() <= erased_bytes_.size(),
            "only images are augmented, got samples ", sample_shape().text());
    for (std::size_t c = 0; c < channels(); ++c) {
      erased_bytes_[c] = nearest_byte(-scaling.offset[c] / scaling.factor[c]);
      erased_[c] = static_cast<float>(erased_bytes_[c]) * scaling.factor[c] + scaling.offset[c];
      black_[c] = scaling.offset[c];
    }
  }

  std::string description() const override {
    std::string text = inner().description();
    if (spec_.padding > 0) text += cat(", moved by up to ", spec_.padding, " pixels");
    if (spec_.operations.count > 0)
      text += cat(", RandAugment(", spec_.operations.count, ", ", spec_.operations.magnitude, ")");
    if (spec_.erase > 0.0) text += cat(", a part erased with probability ", spec_.erase);
    return text;
  }

  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    if (spec_.operations.count > 0) return read_through_bytes(i, variation, to);
    const std::int32_t label = inner().read(i, variation, to);
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
    const std::int32_t label = inner().read_bytes(i, variation, to);
    change_bytes(variation, to);
    return label;
  }

 private:
  /// With operations on bytes: values that lie between bytes are rounded.
  std::int32_t read_through_bytes(std::int64_t i, std::uint64_t variation, std::span<float> to) const {
    thread_local std::vector<std::uint8_t> bytes;
    bytes.resize(to.size());
    std::int32_t label = 0;
    if (inner().scaling()) {
      label = inner().read_bytes(i, variation, bytes);
    } else {
      label = inner().read(i, variation, to);
      for_each_value(to, bytes, [](const float& value, std::uint8_t& byte, float factor, float offset) {
        byte = nearest_byte((value - offset) / factor);
      });
    }
    change_bytes(variation, bytes);
    for_each_value(to, bytes, [](float& value, std::uint8_t byte, float factor, float offset) {
      value = std::fma(static_cast<float>(byte), factor, offset);
    });
    return label;
  }

  /// body(value of (C,H,W), its byte in (H,W,C), factor, offset)
  template <class Body>
  void for_each_value(std::span<float> values, std::span<std::uint8_t> bytes, const Body& body) const {
    const std::size_t step = channels();
    const std::size_t plane = values.size() / step;
    for (std::size_t c = 0; c < step; ++c) {
      const float factor = scaling_.factor[c];
      const float offset = scaling_.offset[c];
      for (std::size_t pixel = 0; pixel < plane; ++pixel)
        body(values[c * plane + pixel], bytes[pixel * step + c], factor, offset);
    }
  }

  void change_bytes(std::uint64_t variation, std::span<std::uint8_t> pixels) const {
    const PixelPlane<std::uint8_t> plane{.values = pixels,
                                         .width = sample_shape()[2],
                                         .black = std::span(black_bytes_).first(channels()),
                                         .erased = std::span(erased_bytes_).first(channels())};
    Augmentation augmentation = draw(variation);
    const Box erased = std::exchange(augmentation.erased, {});
    augment(augmentation, plane);
    Random random(variation, random_augmentation, operations_stream);
    rand_augment(random, spec_.operations, {pixels, plane.width, sample_shape()[0]});
    augment({.erased = erased}, plane);
  }

  std::size_t channels() const { return static_cast<std::size_t>(sample_shape()[0]); }
  Augmentation draw(std::uint64_t variation) const {
    Random random(variation, random_augmentation, stream);
    return draw_augmentation(random, sample_shape()[1], sample_shape()[2], spec_);
  }

  AugmentationSpec spec_;
  ByteScaling scaling_;
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
