// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "src/train/state_source.hpp"
#include "tests/train/training_run.hpp"

namespace flotilla::test {

/// Arrays of a network as files hold them: alike on all devices.
inline std::vector<float> plain_values(const Network& network, std::span<const StateArray> arrays) {
  StateSource source(network, arrays);
  source.take(arrays);
  std::vector<float> all;
  for (std::size_t i = 0; i < source.tensors().size(); ++i)
    for (const float value : source.values(i)) all.push_back(value);
  return all;
}
/// Parameters and statistics of a model of the run.
inline std::vector<float> plain_values(const TrainingRun& run, const Model& model) {
  return plain_values(*run.parts.model.network, state_arrays(model, nullptr));
}

/// ‖a − b‖ ÷ ‖b‖.
inline double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return 1e30;
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace flotilla::test
