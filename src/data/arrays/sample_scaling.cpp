// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/sample_scaling.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

SampleScaling::SampleScaling(NumberType type, std::int64_t groups, const GivenScaling& given) : type_(type) {
  for (const std::size_t count : {given.mean.size(), given.std.size()})
    require(count <= 1 || static_cast<std::int64_t>(count) == groups, count, " means or deviations of ",
            groups, " groups");
  const std::size_t count = std::max({given.mean.size(), given.std.size(), std::size_t{1}});
  const auto at = [](const std::vector<double>& values, std::size_t k, double otherwise) {
    return values.empty() ? otherwise : values[values.size() == 1 ? 0 : k];
  };
  for (std::size_t k = 0; k < count; ++k) {
    mean_.push_back(at(given.mean, k, 0.0));
    inverse_.push_back(1.0 / at(given.std, k, 1.0));
  }
}

SampleScaling SampleScaling::of_pixels(std::int64_t groups, const GivenScaling& given) {
  SampleScaling scaling({}, groups, given);
  for (std::size_t k = 0; k < scaling.mean_.size(); ++k)
    scaling.pixels_.emplace_back(PixelScale{
        .mean = scaling.mean_[k], .std = given.std.empty() ? 1.0 : given.std[given.std.size() == 1 ? 0 : k]});
  return scaling;
}

void SampleScaling::convert(std::span<const std::byte> numbers, std::span<float> to) const {
  if (pixels_.empty()) return to_floats(type_, numbers, {.mean = mean_, .inverse = inverse_}, to);
  const std::span pixels(reinterpret_cast<const std::uint8_t*>(numbers.data()), numbers.size());
  const std::size_t each = to.size() / pixels_.size();
  for (std::size_t k = 0; k < pixels_.size(); ++k)
    pixels_[k].convert(pixels.subspan(k * each, each), to.data() + k * each);
}

bool SampleScaling::changes_nothing() const {
  return pixels_.empty() && type_.kind == NumberType::Kind::f32 &&
         std::ranges::all_of(mean_, [](double mean) { return mean == 0.0; }) &&
         std::ranges::all_of(inverse_, [](double inverse) { return inverse == 1.0; });
}

ByteScaling SampleScaling::bytes(std::int64_t channels) const {
  ByteScaling scaling{.factor = {}, .offset = {}};
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const PixelScaler& scaler = pixels_[pixels_.size() == 1 ? 0 : c];
    scaling.factor[c] = scaler.factor();
    scaling.offset[c] = scaler.offset();
  }
  return scaling;
}

}  // namespace flotilla
