// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/axis_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Between the centres of the two nearest pixels, at the borders the border pixel alone.
void weigh(AxisWeights<float>::Taps& taps, std::span<float> weights, double centre, double /*scale*/,
           std::int64_t source) {
  const double at = std::clamp(centre - 0.5, 0.0, static_cast<double>(source - 1));
  const double below = std::floor(at);
  taps.first = static_cast<std::int32_t>(below);
  taps.count = taps.first + 1 < source ? 2 : 1;
  weights[0] = static_cast<float>(1.0 - (at - below));
  weights[1] = static_cast<float>(at - below);
}

/// A triangle around the centre, its weights normalized and rounded as PIL does (Resample.c,
/// precompute_coeffs, normalize_coeffs_8bpc).
void weigh(AxisWeights<std::int32_t>::Taps& taps, std::span<std::int32_t> weights, double centre,
           double scale, std::int64_t source) {
  const double support = std::max(1.0, scale);
  const double narrowing = 1.0 / support;
  const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - support + 0.5));
  const auto end = std::min(source, static_cast<std::int64_t>(centre + support + 0.5));
  const auto height = [&](std::int64_t pixel) {
    return std::max(0.0, 1.0 - std::abs((static_cast<double>(pixel) - centre + 0.5) * narrowing));
  };
  double sum = 0.0;
  for (std::int64_t pixel = first; pixel < end; ++pixel) sum += height(pixel);

  std::size_t k = 0;
  for (std::int64_t pixel = first; pixel < end; ++pixel) {
    weights[k++] = static_cast<std::int32_t>(0.5 + height(pixel) / sum * (1 << weight_bits));
  }
  taps.first = static_cast<std::int32_t>(first);
  taps.count = static_cast<std::int32_t>(k);
}

std::size_t room_for(const AxisWeights<float>& /*axis*/, double /*scale*/) {
  return 2;
}
std::size_t room_for(const AxisWeights<std::int32_t>& /*axis*/, double scale) {
  return static_cast<std::size_t>(std::ceil(std::max(1.0, scale))) * 2 + 1;
}

}  // namespace

template <class Weight>
void AxisWeights<Weight>::prepare(const AxisSpec& spec) {
  require(spec.source > 0 && spec.count > 0 && spec.begin >= 0 && spec.begin + spec.count <= spec.target &&
              std::max(spec.source, spec.target) <= std::numeric_limits<std::int32_t>::max(),
          "cannot resize ", spec.source, " pixels to ", spec.target, " and take ", spec.count, " from ",
          spec.begin);
  const double scale = static_cast<double>(spec.source) / static_cast<double>(spec.target);
  const auto count = static_cast<std::size_t>(spec.count);
  stride_ = room_for(*this, scale);
  taps_.resize(count);
  weights_.assign(count * stride_, Weight{});
  widest_ = 0;
  std::int64_t end = 0;
  first_needed_ = spec.source;
  for (std::size_t i = 0; i < count; ++i) {
    const double centre = (static_cast<double>(spec.begin) + static_cast<double>(i) + 0.5) * scale;
    const std::size_t to = spec.mirrored ? count - 1 - i : i;
    weigh(taps_[to], std::span(weights_).subspan(to * stride_, stride_), centre, scale, spec.source);
    first_needed_ = std::min<std::int64_t>(first_needed_, taps_[to].first);
    widest_ = std::max(widest_, static_cast<std::size_t>(taps_[to].count));
    end = std::max<std::int64_t>(end, taps_[to].first + taps_[to].count);
  }
  needed_ = end - first_needed_;
}

template class AxisWeights<float>;
template class AxisWeights<std::int32_t>;

}  // namespace flotilla
