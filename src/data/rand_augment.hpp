// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/random.hpp"

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

/// Changes an image in place, with the same bits as torchvision gives for a PIL image, with the nearest pixel
/// for rotations and 0 for what moves in.
/// @param magnitude shear: pixels sideways for each pixel; translate: pixels, positive to the right and down;
/// rotate: degrees counterclockwise; brightness, color, contrast, sharpness: the factor minus 1; posterize:
/// bits kept; solarize: the least value that is inverted; of the others: not used
void change_image(const ByteImage& image, ImageOperation operation, float magnitude);

inline constexpr std::int64_t max_magnitude = 30;  ///< The last of torchvision's 31 bins

/// RandAugment (Cubuk et al. 2020) with torchvision's ranges.
struct RandAugmentSpec {
  std::int64_t count = 0;      ///< Operations on each image; 0: none
  std::int64_t magnitude = 9;  ///< 0 … max_magnitude
};

/// The magnitude that change_image() takes of an operation. @param height and width of the image in pixels
float magnitude_of(ImageOperation operation, std::int64_t magnitude, std::int64_t height, std::int64_t width);

/// Changes an image by operations drawn one after the other, each of the 14 with the same probability; those
/// that have a direction (shear_x … sharpness) take either one with probability ½.
void rand_augment(Random& random, const RandAugmentSpec& spec, const ByteImage& image);

}  // namespace flotilla
