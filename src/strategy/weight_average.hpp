// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/strategy/state_array.hpp"

namespace flotilla {

/// An exponential moving average of a model's parameters and running statistics over the steps, as PyTorch's
/// AveragedModel with get_ema_multi_avg_fn and use_buffers: at the first update the model itself, at later
/// ones average ← decay · average + (1 − decay) · model (Polyak & Juditsky 1992). Training does not depend on
/// it.
class WeightAverage {
 public:
  WeightAverage(Device& device, const Model& shape, double decay);  ///< @param decay in (0, 1)

  void update(const Model& model);
  Model model() { return {parameters_.span(), statistics_.span()}; }
  /// "strategy/average_parameters", and where there are statistics "strategy/average_statistics".
  std::vector<StateArray> arrays();
  std::map<std::string, double> numbers() const;  ///< For StrategyState::numbers
  /// Where numbers() are not among those that were saved, the next update is the first.
  void set_numbers(const std::map<std::string, double>& saved);
  std::int64_t bytes() const;

 private:
  Device& device_;
  float decay_;
  std::int64_t updates_ = 0;
  Storage parameters_;
  Storage statistics_;
};

}  // namespace flotilla
