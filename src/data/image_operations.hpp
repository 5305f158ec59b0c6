// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace flotilla {

/// The operations of RandAugment (Cubuk et al. 2020), in torchvision's order.
enum class ImageOperation {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
};

/// An image of bytes in the order (H,W,C), C = 1 (grey) or 3 (red, green, blue).
struct ByteImage {
  std::span<std::uint8_t> values;
  std::int64_t width = 0;
  std::int64_t channels = 3;
};

/// Changes an image in place, to the bits of what torchvision makes of a PIL image, with the nearest pixel
/// for rotations and 0 for what moves in.
/// @param magnitude shear: pixels sideways for each pixel; translate: pixels, positive to the right and down;
/// rotate: degrees counterclockwise; brightness, color, contrast, sharpness: the factor minus 1; posterize:
/// bits kept; solarize: the least value that is inverted; of the others: not used
void change_image(const ByteImage& image, ImageOperation operation, float magnitude);

}  // namespace flotilla
