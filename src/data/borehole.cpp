// SPDX-License-Identifier: Apache-2.0
#include "src/data/borehole.hpp"

#include <cmath>
#include <numbers>

#include "kernels/random.hpp"

namespace flotilla {

double borehole_flow(std::span<const double, 8> x) {
  const auto [rw, r, tu, hu, tl, hl, length, kw] =
      std::array<double, 8>{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
  const double log_radii = std::log(r / rw);
  const double resistance = 1.0 + 2.0 * length * tu / (log_radii * rw * rw * kw) + tu / tl;
  return 2.0 * std::numbers::pi * tu * (hu - hl) / (log_radii * resistance);
}

float borehole_sample(std::uint64_t seed, std::int64_t i, std::span<float, 8> inputs) {
  Random random(seed, random_data, static_cast<std::uint64_t>(i));
  std::array<double, 8> x{};
  for (std::size_t k = 0; k < x.size(); ++k) {
    const BoreholeInput& input = borehole_inputs[k];
    inputs[k] = static_cast<float>(input.low + (input.high - input.low) * random.uniform());
    x[k] = static_cast<double>(inputs[k]);
  }
  return static_cast<float>(borehole_flow(x));
}

}  // namespace flotilla
