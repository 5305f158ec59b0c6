// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "src/train/state_source.hpp"
#include "tests/support/relative_difference.hpp"
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

}  // namespace flotilla::test
