// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "kernels/random.hpp"
#include "tests/support/relative_difference.hpp"
#include "tests/train/training_run.hpp"

// What rounding does to a training: how far another one comes that begins one rounding away.

namespace flotilla::test {

/// A residual network without kinks, so that rounding grows by a factor that the derivatives bound: a sum on
/// the edge of a ReLU falls to either side, and batch norms of few values make much of that.
inline const std::string smooth_deck = R"(
[model]
kind = "layers"
layers = ["conv 16 3 padding 1", "batch_norm", "tanh", "residual", "conv 16 3 padding 1", "batch_norm", "end",
          "gelu", "conv 8 3 stride 2", "batch_norm", "tanh", "linear 4"]
classes = 4
[data]
kind = "random"
shape = [3, 8, 8]
[data.train]
samples = 64
[train]
steps = 1000
global_batch_size = 16
[optimizer]
kind = "momentum"
weight_decay = 1e-4
[schedule]
learning_rate = 0.01
)";

/// Moves every parameter of this worker to one of its neighbours in float32, the same on every worker.
inline void move_by_a_rounding(TrainingRun& run) {
  constexpr float infinite = std::numeric_limits<float>::infinity();
  std::vector<float> values = run.parameters();
  Random random(1, random_data, 0);
  for (float& value : values) value = std::nextafter(value, random.uniform() < 0.5 ? -infinite : infinite);
  run.parts.machine.device->memory().upload(values, run.parts.model.weights.parameters);
}

/// ‖a − b‖ ÷ ‖b − begin‖: how far two trainings come apart, as a part of the way that they went.
inline double way_apart(const std::vector<float>& a, const std::vector<float>& b,
                        const std::vector<float>& begin) {
  double apart = 0.0;
  double way = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    apart += std::pow(double{a[i]} - double{b[i]}, 2);
    way += std::pow(double{b[i]} - double{begin[i]}, 2);
  }
  return std::sqrt(apart / way);
}

}  // namespace flotilla::test
