// SPDX-License-Identifier: Apache-2.0
#include "src/data/pixel_scale.hpp"

#include <array>
#include <cstddef>
#include <cstring>

namespace flotilla {

PixelScaler::PixelScaler(const PixelScale& scale)
    : factor_(static_cast<float>(1.0 / (255.0 * scale.std))),
      offset_(static_cast<float>(-scale.mean / scale.std)) {}

void PixelScaler::convert(std::span<const std::uint8_t> pixels, float* to) const {
  // Blocks of a fixed size through a local array: the compiler vectorises them without alias checks.
  constexpr std::size_t width = 64;
  std::array<float, width> block;  // not zeroed: written before it is read
  std::size_t done = 0;
  for (; done + width <= pixels.size(); done += width) {
    const std::uint8_t* from = pixels.data() + done;
    for (std::size_t k = 0; k < width; ++k) block[k] = static_cast<float>(from[k]) * factor_ + offset_;
    std::memcpy(to + done, block.data(), sizeof(block));
  }
  for (; done < pixels.size(); ++done) to[done] = static_cast<float>(pixels[done]) * factor_ + offset_;
}

}  // namespace flotilla
