// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/optim/optimizer.hpp"

namespace flotilla {

/// Momentum with a rate per tensor (formula: make_optimizer).
class Lars : public Optimizer {
 public:
  Lars(const OptimizerConfig& config, const ArenaLayout& layout, Device& device);
  std::vector<OptimizerSlot> slots() override;

 protected:
  void update(UpdateInput in, std::int64_t step) override;

 private:
  FlatMath& math_;
  FlatUpdates& updates_;
  std::vector<FlatRange> ranges_;  ///< One per tensor; rate_factor is set in every step
  std::vector<double> parameter_norms_;
  std::vector<double> gradient_norms_;
  double coefficient_;
  double epsilon_;
  float mu_;
  Storage velocity_;
};

/// Adam's direction with a rate per tensor (formula: make_optimizer).
class Lamb : public Optimizer {
 public:
  Lamb(const OptimizerConfig& config, const ArenaLayout& layout, Device& device);
  std::vector<OptimizerSlot> slots() override;

 protected:
  void update(UpdateInput in, std::int64_t step) override;

 private:
  FlatMath& math_;
  FlatUpdates& updates_;
  std::vector<FlatRange> ranges_;  ///< Ranges for the direction, with weight decay
  std::vector<FlatRange>
      rate_ranges_;  ///< Ranges for the update, without it: one per tensor, rate_factor set in every step
  std::vector<double> parameter_norms_;
  std::vector<double> direction_norms_;
  float beta1_;
  float beta2_;
  float epsilon_;
  Storage first_;
  Storage second_;
  Storage direction_;
};

}  // namespace flotilla
