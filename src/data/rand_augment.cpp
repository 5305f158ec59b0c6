// SPDX-License-Identifier: Apache-2.0
#include "src/data/rand_augment.hpp"

#include <cmath>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::uint64_t operation_kinds = 14;

bool has_direction(ImageOperation operation) {
  return ImageOperation::shear_x <= operation && operation <= ImageOperation::sharpness;
}

}  // namespace

float magnitude_of(ImageOperation operation, std::int64_t magnitude, std::int64_t height,
                   std::int64_t width) {
  const double share = static_cast<double>(magnitude) / static_cast<double>(most_magnitude);
  const auto up_to = [&](double end) {
    return static_cast<float>(static_cast<double>(static_cast<float>(end)) * static_cast<double>(magnitude) /
                              static_cast<double>(most_magnitude));
  };
  switch (operation) {
    case ImageOperation::shear_x:
    case ImageOperation::shear_y: return up_to(0.3);
    case ImageOperation::translate_x: return std::trunc(up_to(150.0 / 331.0 * static_cast<double>(width)));
    case ImageOperation::translate_y: return std::trunc(up_to(150.0 / 331.0 * static_cast<double>(height)));
    case ImageOperation::rotate: return up_to(30.0);
    case ImageOperation::brightness:
    case ImageOperation::color:
    case ImageOperation::contrast:
    case ImageOperation::sharpness: return up_to(0.9);
    case ImageOperation::posterize: return static_cast<float>(8.0 - std::round(4.0 * share));
    case ImageOperation::solarize: return static_cast<float>(255.0 - 255.0 * share);
    case ImageOperation::identity:
    case ImageOperation::auto_contrast:
    case ImageOperation::equalize: break;
  }
  return 0.0F;
}

void rand_augment(Random& random, const RandAugmentSpec& spec, const ByteImage& image) {
  if (spec.count == 0) return;
  require(image.channels == 1 || image.channels == 3, "colours of ", image.channels, " channels");
  const std::int64_t height = std::ssize(image.values) / (image.width * image.channels);
  for (std::int64_t i = 0; i < spec.count; ++i) {
    const auto operation = static_cast<ImageOperation>(random.below(operation_kinds));
    const float magnitude = magnitude_of(operation, spec.magnitude, height, image.width);
    const bool reversed = has_direction(operation) && random.below(2) == 1;
    change_image(image, operation, reversed ? -magnitude : magnitude);
  }
}

}  // namespace flotilla
