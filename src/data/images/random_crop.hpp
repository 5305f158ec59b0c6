// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/random.hpp"
#include "src/data/images/image_transform.hpp"
#include "src/data/images/picture.hpp"

namespace flotilla {

/// Draws a crop inside an image: area uniform in [area_min, area_max] of the image's, logarithm of width ÷
/// height uniform in [aspect_min, aspect_max]. After ten draws that do not fit, the largest central crop
/// whose aspect does (torchvision's RandomResizedCrop.get_params).
Box random_crop(Random& random, const Extent& image, const ImageTransformSpec& spec);

/// Extent after a resize that makes the shorter side `short_side`, the longer one rounded down (torchvision's
/// Resize).
Extent with_short_side(const Extent& image, std::int64_t short_side);

/// Where a centre crop of `size` begins on a side of `length`: torchvision's rounding, half to even.
std::int64_t centre_begin(std::int64_t length, std::int64_t size);

}  // namespace flotilla
