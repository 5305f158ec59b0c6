// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/turning.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

// EXIF 2.3, section 4.6.4, tag 0x0112: at which side of the scene the file's first row and first column lie.
Turning::Turning(int orientation, const Extent& stored)
    : swaps_(orientation >= 5),
      from_right_(orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8),
      from_bottom_(orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7),
      stored_(stored) {
  require(1 <= orientation && orientation <= 8, "there is no EXIF orientation ", orientation);
}

Extent Turning::upright() const {
  return swaps_ ? Extent{stored_.height, stored_.width} : stored_;
}

Box Turning::stored(const Box& upright) const {
  Box box = upright;
  if (swaps_) box = {upright.y, upright.x, upright.height, upright.width};
  if (from_right_) box.x = stored_.width - box.x - box.width;
  if (from_bottom_) box.y = stored_.height - box.y - box.height;
  return box;
}

Box Turning::upright(std::int64_t x, std::int64_t y, const Extent& stored) const {
  if (from_right_) x = stored.width - 1 - x;
  if (from_bottom_) y = stored.height - 1 - y;
  if (swaps_) std::swap(x, y);
  return {x, y, 1, 1};
}

void TurnedRows::read(RowSource& rows, const Turning& turning, const Box& part) {
  const Box box = turning.stored(part);
  const Extent extent{box.width, box.height};
  width_ = part.width;
  row_ = 0;
  pixels_.resize(static_cast<std::size_t>(part.width * part.height));
  std::array<const Pixel*, max_rows> next{};
  for (std::int64_t y = 0; y < extent.height; y += max_rows) {
    const std::int64_t count = std::min<std::int64_t>(max_rows, extent.height - y);
    rows.next(std::span(next).first(static_cast<std::size_t>(count)));
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t x = 0; x < extent.width; ++x) {
        const Box to = turning.upright(x, y + r, extent);
        pixels_[static_cast<std::size_t>(to.y * width_ + to.x)] = next[static_cast<std::size_t>(r)][x];
      }
    }
  }
}

void TurnedRows::next(std::span<const Pixel*> rows) {
  for (const Pixel*& row : rows) row = pixels_.data() + row_++ * width_;
}

}  // namespace flotilla
