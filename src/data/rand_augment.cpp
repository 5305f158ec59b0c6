// SPDX-License-Identifier: Apache-2.0
#include "src/data/rand_augment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

using ValueTable = std::array<std::uint8_t, 256>;

std::uint8_t to_byte(double value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
}

std::size_t height_of(const ByteImage& image) {
  return image.values.size() / static_cast<std::size_t>(image.width * image.channels);
}

/// The image before an operation that reads neighbours; valid until the thread's next call.
std::span<const std::uint8_t> copy_of(const ByteImage& image) {
  thread_local std::vector<std::uint8_t> copy;
  copy.assign(image.values.begin(), image.values.end());
  return copy;
}

// --- Places --------------------------------------------------------------------------------------------

/// The place in the old image of pixel (x, y): (xx x + xy y + x_0, yx x + yy y + y_0), between middles of
/// pixels.
struct Affine {
  double xx = 1.0, xy = 0.0, x_0 = 0.0;
  double yx = 0.0, yy = 1.0, y_0 = 0.0;
};

/// Fixed-point numbers with 16 fractional bits, as in PIL: positions are then the same on every processor.
std::int64_t fixed_point(double value) {
  return static_cast<std::int64_t>(std::floor(value * 65536.0 + 0.5));
}

void transform(const ByteImage& image, const Affine& from) {
  const std::span<const std::uint8_t> old = copy_of(image);
  const auto channels = static_cast<std::size_t>(image.channels);
  const auto height = static_cast<std::int64_t>(height_of(image));
  const std::int64_t step_x = fixed_point(from.xx);
  const std::int64_t step_y = fixed_point(from.yx);
  std::uint8_t* to = image.values.data();
  for (std::int64_t y = 0; y < height; ++y) {
    std::int64_t at_x = fixed_point(from.x_0 + from.xx * 0.5 + from.xy * 0.5) + y * fixed_point(from.xy);
    std::int64_t at_y = fixed_point(from.y_0 + from.yx * 0.5 + from.yy * 0.5) + y * fixed_point(from.yy);
    for (std::int64_t x = 0; x < image.width; ++x, at_x += step_x, at_y += step_y, to += channels) {
      const std::int64_t source_x = at_x >> 16;
      const std::int64_t source_y = at_y >> 16;
      if (source_x < 0 || source_x >= image.width || source_y < 0 || source_y >= height) {
        std::fill_n(to, channels, std::uint8_t{0});
      } else {
        std::copy_n(old.data() + static_cast<std::size_t>(source_y * image.width + source_x) * channels,
                    channels, to);
      }
    }
  }
}

Affine rotation(const ByteImage& image, double degrees) {
  const double angle = degrees * std::numbers::pi / 180.0;
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  const double middle_x = static_cast<double>(image.width) / 2.0;
  const double middle_y = static_cast<double>(height_of(image)) / 2.0;
  return {.xx = c,
          .xy = -s,
          .x_0 = middle_x - c * middle_x + s * middle_y,
          .yx = s,
          .yy = c,
          .y_0 = middle_y - s * middle_x - c * middle_y};
}

// --- Colours -------------------------------------------------------------------------------------------

/// factor · value + (1 − factor) · other, cut to a byte. The product of float and byte is exact in double
/// and rounded once: not fused with the sum, whatever the processor.
std::uint8_t blended(int other, int value, float factor) {
  const auto part = static_cast<float>(double{factor} * (value - other));
  return to_byte(static_cast<float>(other) + part);
}

/// value ← result_of(value)
template <class ResultOf>
void map_values(const ByteImage& image, const ResultOf& result_of) {
  ValueTable table;  // not zeroed: written before it is read
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<std::uint8_t>(result_of(static_cast<int>(i)));
  for (std::uint8_t& value : image.values) value = table[value];
}

void blend_with(const ByteImage& image, int other, float factor) {
  map_values(image, [&](int value) { return blended(other, value, factor); });
}

/// Luma of ITU-R BT.601 in 16 bits, as PIL's; of grey the value itself.
int luma(std::span<const std::uint8_t> pixel) {
  if (pixel.size() == 1) return pixel[0];
  return (19595 * pixel[0] + 38470 * pixel[1] + 7471 * pixel[2] + 32768) >> 16;
}

void change_color(const ByteImage& image, float factor) {
  const auto channels = static_cast<std::size_t>(image.channels);
  for (std::size_t i = 0; i < image.values.size(); i += channels) {
    const std::span<std::uint8_t> pixel = image.values.subspan(i, channels);
    const int grey = luma(pixel);
    for (std::uint8_t& value : pixel) value = blended(grey, value, factor);
  }
}

int mean_luma(const ByteImage& image) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const auto pixels = static_cast<std::int64_t>(image.values.size() / channels);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < image.values.size(); i += channels)
    sum += luma(image.values.subspan(i, channels));
  return static_cast<int>((2 * sum + pixels) / (2 * pixels));
}

/// Blends with means over 3 x 3 pixels, of which the middle counts 5 times; pixels at the border stay.
void sharpen(const ByteImage& image, float factor) {
  const std::span<const std::uint8_t> old = copy_of(image);
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t row = static_cast<std::size_t>(image.width) * channels;
  for (std::size_t y = 1; y + 1 < height_of(image); ++y) {
    for (std::size_t i = y * row + channels; i + channels < (y + 1) * row; ++i) {
      int sum = 4 * old[i];
      for (const std::size_t line : {i - row, i, i + row})
        sum += old[line - channels] + old[line] + old[line + channels];
      image.values[i] = blended((2 * sum + 13) / 26, old[i], factor);
    }
  }
}

/// Replaces the values of each channel by a table that `make` fills from the channel's counts of values.
template <class Make>
void map_channels(const ByteImage& image, const Make& make) {
  const auto channels = static_cast<std::size_t>(image.channels);
  for (std::size_t c = 0; c < channels; ++c) {
    std::array<std::int64_t, 256> counts{};
    for (std::size_t i = c; i < image.values.size(); i += channels) ++counts[image.values[i]];
    ValueTable table;
    for (std::size_t v = 0; v < table.size(); ++v) table[v] = static_cast<std::uint8_t>(v);
    make(counts, table);
    for (std::size_t i = c; i < image.values.size(); i += channels) image.values[i] = table[image.values[i]];
  }
}

/// Stretches values to 0 … 255.
void full_range(const std::array<std::int64_t, 256>& counts, ValueTable& table) {
  const auto present = [](std::int64_t n) { return n > 0; };
  const auto low = std::find_if(counts.begin(), counts.end(), present) - counts.begin();
  const auto high = 255 - (std::find_if(counts.rbegin(), counts.rend(), present) - counts.rbegin());
  if (high <= low) return;
  const double scale = 255.0 / static_cast<double>(high - low);
  // Products are rounded once and not fused with the sum: as blended().
  const auto times_scale = [&](auto i) {
    return static_cast<double>(static_cast<long double>(i) * static_cast<long double>(scale));
  };
  for (std::size_t v = 0; v < table.size(); ++v) table[v] = to_byte(times_scale(v) - times_scale(low));
}

/// Gives values equal shares of 0 … 255.
void equal_shares(const std::array<std::int64_t, 256>& counts, ValueTable& table) {
  std::int64_t all = 0;
  std::int64_t last = 0;
  for (const std::int64_t n : counts) {
    all += n;
    if (n > 0) last = n;
  }
  const std::int64_t step = (all - last) / 255;
  if (step == 0) return;
  std::int64_t before = step / 2;
  for (std::size_t v = 0; v < table.size(); ++v) {
    table[v] = static_cast<std::uint8_t>(std::min<std::int64_t>(before / step, 255));
    before += counts[v];
  }
}

}  // namespace

void change_image(const ByteImage& image, ImageOperation operation, float magnitude) {
  const double m = magnitude;
  const auto factor = static_cast<float>(1.0 + m);
  switch (operation) {
    case ImageOperation::identity: return;
    case ImageOperation::shear_x: return transform(image, {.xy = m});
    case ImageOperation::shear_y: return transform(image, {.yx = m});
    case ImageOperation::translate_x: return transform(image, {.x_0 = -m});
    case ImageOperation::translate_y: return transform(image, {.y_0 = -m});
    case ImageOperation::rotate: return transform(image, rotation(image, m));
    case ImageOperation::brightness: return blend_with(image, 0, factor);
    case ImageOperation::color: return change_color(image, factor);
    case ImageOperation::contrast: return blend_with(image, mean_luma(image), factor);
    case ImageOperation::sharpness: return sharpen(image, factor);
    case ImageOperation::posterize:
      return map_values(image, [&](int value) { return value & 0xFF << (8 - std::lround(m)); });
    case ImageOperation::solarize:
      return map_values(image, [&](int value) { return value < m ? value : 255 - value; });
    case ImageOperation::auto_contrast: return map_channels(image, full_range);
    case ImageOperation::equalize: return map_channels(image, equal_shares);
  }
  throw InternalError("an unknown operation on images");
}

namespace {

constexpr std::uint64_t operation_kinds = 14;

bool has_direction(ImageOperation operation) {
  return ImageOperation::shear_x <= operation && operation <= ImageOperation::sharpness;
}

}  // namespace

float magnitude_of(ImageOperation operation, std::int64_t magnitude, std::int64_t height,
                   std::int64_t width) {
  const double share = static_cast<double>(magnitude) / static_cast<double>(max_magnitude);
  const auto up_to = [&](double end) {
    return static_cast<float>(static_cast<double>(static_cast<float>(end)) * static_cast<double>(magnitude) /
                              static_cast<double>(max_magnitude));
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
