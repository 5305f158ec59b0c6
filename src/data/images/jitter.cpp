// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/jitter.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace flotilla {

namespace {

/// The three planes of an image.
struct Planes {
  explicit Planes(std::span<float> all)
      : red(all.first(all.size() / 3)),
        green(all.subspan(red.size(), red.size())),
        blue(all.last(red.size())) {}

  std::span<float> red, green, blue;
};

float unit(float value) {
  return std::clamp(value, 0.0F, 1.0F);
}

/// Luma, ITU-R BT.601 with torchvision's digits.
float grey(const Planes& p, std::size_t i) {
  return 0.2989F * p.red[i] + 0.587F * p.green[i] + 0.114F * p.blue[i];
}

void blend(float& value, float with, float share) {
  value = unit(share * value + (1.0F - share) * with);
}

void change_contrast(std::span<float> all, float factor) {
  const Planes planes(all);
  double sum = 0.0;
  for (std::size_t i = 0; i < planes.red.size(); ++i) sum += grey(planes, i);
  const auto mean = static_cast<float>(sum / static_cast<double>(planes.red.size()));
  for (float& value : all) blend(value, mean, factor);
}

void change_saturation(std::span<float> all, float factor) {
  const Planes planes(all);
  for (std::size_t i = 0; i < planes.red.size(); ++i) {
    const float luma = grey(planes, i);
    for (const auto& plane : {planes.red, planes.green, planes.blue}) blend(plane[i], luma, factor);
  }
}

/// Hue in turns, 0: red, 1/3: green, 2/3: blue (Smith, SIGGRAPH 1978). `high` > `low`.
float hue_of(float red, float green, float blue, float high, float low) {
  const float range = high - low;
  float sixths = 0.0F;
  if (high == red) {
    sixths = (green - blue) / range;
  } else if (high == green) {
    sixths = 2.0F + (blue - red) / range;
  } else {
    sixths = 4.0F + (red - green) / range;
  }
  return sixths / 6.0F;
}

/// The part of a primary colour, whose own hue is 0, in a colour with the given hue, largest and smallest
/// part.
float part(float hue, float high, float low) {
  const float distance = std::abs(hue - std::round(hue)) * 6.0F;  // 0 … 3 sixths on the circle
  return low + (high - low) * unit(2.0F - distance);
}

void change_hue(std::span<float> all, float shift) {
  const Planes planes(all);
  for (std::size_t i = 0; i < planes.red.size(); ++i) {
    float& red = planes.red[i];
    float& green = planes.green[i];
    float& blue = planes.blue[i];
    const float high = std::max({red, green, blue});
    const float low = std::min({red, green, blue});
    if (high == low) continue;
    const float hue = hue_of(red, green, blue, high, low) + shift;
    red = part(hue, high, low);
    green = part(hue - 1.0F / 3.0F, high, low);
    blue = part(hue - 2.0F / 3.0F, high, low);
  }
}

}  // namespace

ColourChange draw_colour_change(Random& random, const ColorJitter& jitter) {
  const auto uniform = [&](double from, double to) {
    return static_cast<float>(from + (to - from) * random.uniform());
  };
  const auto factor = [&](double range) { return uniform(std::max(0.0, 1.0 - range), 1.0 + range); };
  ColourChange change;
  for (std::size_t i = change.order.size() - 1; i > 0; --i)
    std::swap(change.order[i], change.order[random.below(i + 1)]);
  change.amount = {factor(jitter.brightness), factor(jitter.contrast), factor(jitter.saturation),
                   uniform(-jitter.hue, jitter.hue)};
  return change;
}

void change_colours(const ColourChange& change, std::span<float> planes) {
  for (const ColourChange::Kind kind : change.order) {
    const float amount = change.amount[kind];
    if (amount == (kind == ColourChange::hue ? 0.0F : 1.0F)) continue;
    switch (kind) {
      case ColourChange::brightness:
        for (float& value : planes) value = unit(amount * value);
        break;
      case ColourChange::contrast: change_contrast(planes, amount); break;
      case ColourChange::saturation: change_saturation(planes, amount); break;
      case ColourChange::hue: change_hue(planes, amount); break;
    }
  }
}

}  // namespace flotilla
