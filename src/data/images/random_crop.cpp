// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/random_crop.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla {

namespace {

constexpr int crop_draws = 10;

double uniform(Random& random, double from, double to) {
  return from + (to - from) * random.uniform();
}

Box central_crop(const Extent& image, double aspect_min, double aspect_max) {
  Box crop{0, 0, image.width, image.height};
  const auto width = static_cast<double>(image.width);
  const auto height = static_cast<double>(image.height);
  if (width / height < aspect_min) crop.height = std::llround(width / aspect_min);
  if (width / height > aspect_max) crop.width = std::llround(height * aspect_max);
  crop.width = std::clamp<std::int64_t>(crop.width, 1, image.width);
  crop.height = std::clamp<std::int64_t>(crop.height, 1, image.height);
  crop.x = (image.width - crop.width) / 2;
  crop.y = (image.height - crop.height) / 2;
  return crop;
}

}  // namespace

Box random_crop(Random& random, const Extent& image, const ImageTransformSpec& spec) {
  const double whole = static_cast<double>(image.width) * static_cast<double>(image.height);
  for (int draw = 0; draw < crop_draws; ++draw) {
    const double area = whole * uniform(random, spec.area_min, spec.area_max);
    const double aspect = std::exp(uniform(random, std::log(spec.aspect_min), std::log(spec.aspect_max)));
    const std::int64_t width = std::llround(std::sqrt(area * aspect));
    const std::int64_t height = std::llround(std::sqrt(area / aspect));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const std::int64_t y = below(random, image.height - height + 1);
    const std::int64_t x = below(random, image.width - width + 1);
    return {x, y, width, height};
  }
  return central_crop(image, spec.aspect_min, spec.aspect_max);
}

Extent with_short_side(const Extent& image, std::int64_t short_side) {
  const auto longer = [&](std::int64_t length, std::int64_t shorter) {
    return static_cast<std::int64_t>(static_cast<double>(short_side * length) / static_cast<double>(shorter));
  };
  if (image.width <= image.height) return {short_side, longer(image.height, image.width)};
  return {longer(image.width, image.height), short_side};
}

std::int64_t centre_begin(std::int64_t length, std::int64_t size) {
  const std::int64_t twice = length - size;
  // A half is rounded to the even neighbour, as Python's round does.
  return twice / 2 + (twice % 4 == 3 ? 1 : 0);
}

}  // namespace flotilla
