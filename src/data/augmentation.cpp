// SPDX-License-Identifier: Apache-2.0
#include "src/data/augmentation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "src/data/data_reader.hpp"

namespace flotilla {

namespace {

constexpr int erase_draws = 10;

template <class Value>
class Rows {
 public:
  explicit Rows(const PixelPlane<Value>& plane)
      : plane_(plane),
        step_(plane.black.size()),
        width_(static_cast<std::size_t>(plane.width)),
        height_(plane.values.size() / (width_ * step_)) {}

  std::int64_t height() const { return static_cast<std::int64_t>(height_); }

  void flip() const {
    for (std::size_t y = 0; y < height_; ++y) {
      for (std::size_t x = 0; x < width_ / 2; ++x) {
        Value* const row = plane_.values.data() + y * width_ * step_;
        std::swap_ranges(row + x * step_, row + (x + 1) * step_, row + (width_ - 1 - x) * step_);
      }
    }
  }

  void move(std::int64_t down, std::int64_t right) const {
    const auto side = static_cast<std::size_t>(std::min<std::int64_t>(std::abs(right), plane_.width));
    const std::size_t kept = (width_ - side) * step_;
    const std::size_t from = right < 0 ? side * step_ : 0;
    const std::size_t to = right < 0 ? 0 : side * step_;
    for (std::int64_t i = 0; i < height(); ++i) {
      const std::int64_t y = down > 0 ? height() - 1 - i : i;  // a row is read before it is written
      const std::span<Value> row = row_of(y);
      if (y - down < 0 || y - down >= height()) {
        fill(row, plane_.black);
        continue;
      }
      Value* const source = row_of(y - down).data() + from;
      std::copy_n(source, down == 0 ? 0 : kept, row.data() + to);
      if (down == 0 && right < 0) std::copy(source, source + kept, row.data() + to);
      if (down == 0 && right > 0) std::copy_backward(source, source + kept, row.data() + to + kept);
      fill(right < 0 ? row.subspan(kept) : row.first(to), plane_.black);
    }
  }

  void erase(const Box& box) const {
    for (std::int64_t y = box.y; y < box.y + box.height; ++y) {
      fill(row_of(y).subspan(static_cast<std::size_t>(box.x) * step_,
                             static_cast<std::size_t>(box.width) * step_),
           plane_.erased);
    }
  }

 private:
  std::span<Value> row_of(std::int64_t y) const {
    return plane_.values.subspan(static_cast<std::size_t>(y) * width_ * step_, width_ * step_);
  }
  static void fill(std::span<Value> to, std::span<const Value> pixel) {
    for (std::size_t i = 0; i < to.size(); i += pixel.size()) std::ranges::copy(pixel, to.data() + i);
  }

  const PixelPlane<Value>& plane_;
  std::size_t step_;
  std::size_t width_;
  std::size_t height_;
};

Box draw_rectangle(Random& random, std::int64_t image_height, std::int64_t image_width,
                   const AugmentationSpec& spec) {
  const auto uniform = [&](double from, double end) { return from + (end - from) * random.uniform(); };
  const double whole = static_cast<double>(image_height) * static_cast<double>(image_width);
  for (int draw = 0; draw < erase_draws; ++draw) {
    const double area = whole * uniform(spec.area_min, spec.area_max);
    const double aspect = std::exp(uniform(std::log(spec.aspect_min), std::log(spec.aspect_max)));
    const std::int64_t height = std::llround(std::sqrt(area * aspect));
    const std::int64_t width = std::llround(std::sqrt(area / aspect));
    if (height >= image_height || width >= image_width) continue;
    const std::int64_t y = below(random, image_height - height + 1);
    const std::int64_t x = below(random, image_width - width + 1);
    return {x, y, width, height};
  }
  return {};
}

}  // namespace

Augmentation draw_augmentation(Random& random, std::int64_t image_height, std::int64_t image_width,
                               const AugmentationSpec& spec) {
  Augmentation result;
  result.flip = spec.flip > 0.0 && random.uniform() < spec.flip;
  if (spec.padding > 0) {
    result.down = below(random, 2 * spec.padding + 1) - spec.padding;
    result.right = below(random, 2 * spec.padding + 1) - spec.padding;
  }
  if (spec.erase > 0.0 && random.uniform() < spec.erase)
    result.erased = draw_rectangle(random, image_height, image_width, spec);
  return result;
}

template <class Value>
void augment(const Augmentation& augmentation, const PixelPlane<Value>& plane) {
  const Rows rows(plane);
  if (augmentation.flip) rows.flip();
  if (augmentation.down != 0 || augmentation.right != 0) rows.move(augmentation.down, augmentation.right);
  rows.erase(augmentation.erased);
}

template void augment(const Augmentation&, const PixelPlane<float>&);
template void augment(const Augmentation&, const PixelPlane<std::uint8_t>&);

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
    set_facts(with_text(inner().facts(), spec));
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
  static DatasetFacts with_text(DatasetFacts facts, const AugmentationSpec& spec) {
    std::string& text = facts.description;
    if (spec.padding > 0) text += cat(", moved by up to ", spec.padding, " pixels");
    if (spec.operations.count > 0)
      text += cat(", RandAugment(", spec.operations.count, ", ", spec.operations.magnitude, ")");
    if (spec.erase > 0.0) text += cat(", a part erased with probability ", spec.erase);
    return facts;
  }

  /// Reads a sample with operations on bytes: values that lie between bytes are rounded.
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

/// Checks that the samples suit each operation of the deck. @throws UserError naming the key of the first one
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

}  // namespace

std::unique_ptr<Dataset> augmented(std::unique_ptr<Dataset> images, const AugmentationSpec& spec,
                                   const ByteScaling& scaling) {
  return std::make_unique<AugmentedDataset>(std::move(images), spec, scaling);
}

AugmentationSpec augmentation_spec(const DataConfig& data, bool own_flips) {
  require(data.erased.area.size() == 2 && data.erased.aspect.size() == 2, "ranges have 2 values");
  return {.flip = own_flips ? 0.0 : data.flip,
          .padding = data.crop_padding,
          .erase = data.erase,
          .area_min = data.erased.area[0],
          .area_max = data.erased.area[1],
          .aspect_min = data.erased.aspect[0],
          .aspect_max = data.erased.aspect[1],
          .operations = {data.rand_augment, data.rand_augment_magnitude}};
}

std::unique_ptr<Dataset> with_augmentation(std::unique_ptr<Dataset> images, const DataRequest& request,
                                           const ByteScaling& scaling, bool own_flips) {
  const AugmentationSpec spec = augmentation_spec(request.data, own_flips);
  if (!request.use.training || !request.use.decode || !spec.any()) return images;
  check_augmentation(spec, *images);
  return augmented(std::move(images), spec, scaling);
}

}  // namespace flotilla
