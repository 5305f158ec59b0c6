// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "src/data/images/image_decoder.hpp"
#include "tests/data/images/image_files.hpp"

namespace flotilla::test {

/// The rows of a region of `file`, three channels.
inline Picture decode(ImageDecoder& decoder, const Bytes& file, const Box& region) {
  decoder.open(file_of(file));
  decoder.start(region);
  Picture picture{static_cast<int>(region.width), static_cast<int>(region.height), 3, {}};
  std::array<const Pixel*, RowSource::max_rows> rows{};
  for (std::int64_t y = 0; y < region.height;) {
    // One row, two rows, … in turn.
    const auto count = std::min<std::int64_t>(region.height - y, 1 + y % RowSource::max_rows);
    decoder.next(std::span(rows).first(static_cast<std::size_t>(count)));
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t x = 0; x < region.width; ++x) {
        for (int c = 0; c < 3; ++c) {
          picture.values.push_back(
              static_cast<std::uint8_t>(rows[static_cast<std::size_t>(r)][x] >> (8 * c)));
        }
      }
    }
    y += count;
  }
  return picture;
}

/// A part of a picture.
inline Picture cut(const Picture& whole, const Box& region) {
  return draw(
      static_cast<int>(region.width), static_cast<int>(region.height),
      [&](int x, int y, int c) {
        return whole.at(x + static_cast<int>(region.x), y + static_cast<int>(region.y), c);
      },
      whole.channels);
}

}  // namespace flotilla::test
