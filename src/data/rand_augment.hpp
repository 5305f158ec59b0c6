// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/random.hpp"
#include "src/data/image_operations.hpp"

namespace flotilla {

inline constexpr std::int64_t most_magnitude = 30;  ///< Of RandAugment: torchvision's 31 bins

/// RandAugment (Cubuk et al. 2020) with torchvision's ranges.
struct RandAugmentSpec {
  std::int64_t count = 0;      ///< Operations on each image; 0: none
  std::int64_t magnitude = 9;  ///< 0 … most_magnitude
};

/// The magnitude that change_image() takes of an operation. @param height and width of the image in pixels
float magnitude_of(ImageOperation operation, std::int64_t magnitude, std::int64_t height, std::int64_t width);

/// Changes an image by operations drawn one after the other, each of the 14 with the same probability; those
/// that have a direction (shear_x … sharpness) take either one with probability ½.
void rand_augment(Random& random, const RandAugmentSpec& spec, const ByteImage& image);

}  // namespace flotilla
