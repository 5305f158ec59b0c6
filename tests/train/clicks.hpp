// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/random.hpp"

namespace flotilla::test {

/// Predictions, as the two logits of each sample, and what happened.
struct Clicks {
  std::vector<float> logits;
  std::vector<std::int32_t> labels;

  void add(double difference, bool clicked) {
    logits.insert(logits.end(), {0.25F, 0.25F + static_cast<float>(difference)});
    labels.push_back(clicked ? 1 : 0);
  }
  double p(std::size_t sample) const {
    return 1.0 / (1.0 + std::exp(static_cast<double>(logits[2 * sample]) -
                                 static_cast<double>(logits[2 * sample + 1])));
  }
};

/// Clicks predicted with errors: differences of logits normal around −1, more where there was a click.
inline Clicks random_clicks(std::uint64_t seed, std::int64_t samples, double spread = 1.0) {
  Random random(seed, random_data);
  Clicks clicks;
  for (std::int64_t i = 0; i < samples; ++i) {
    const bool clicked = random.uniform() < 0.3;
    clicks.add(-1.0 + spread * (random.normal() + (clicked ? 1.0 : 0.0)), clicked);
  }
  return clicks;
}

}  // namespace flotilla::test
