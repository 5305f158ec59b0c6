// SPDX-License-Identifier: Apache-2.0
#include "src/data/augmentation.hpp"

#include <algorithm>
#include <cmath>

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

}  // namespace flotilla
