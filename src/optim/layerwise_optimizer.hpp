// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "src/optim/optimizer.hpp"

namespace flotilla {

/// Momentum with a rate per tensor (formula: make_optimizer).
class Lars : public Optimizer {
 public:
  Lars(const OptimizerConfig& config, const ArenaLayout& layout, Device& device);

 protected:
  void update(UpdateInput in) override;

 private:
  FlatMath& math_;
  std::vector<double> parameter_norms_;
  std::vector<double> gradient_norms_;
  std::vector<float> factors_;  ///< Of the deck: optimizer.rates
  double coefficient_;
  double epsilon_;
};

/// Adam's direction with a rate per tensor (formula: make_optimizer).
class Lamb : public Optimizer {
 public:
  Lamb(const OptimizerConfig& config, const ArenaLayout& layout, Device& device);

 protected:
  void update(UpdateInput in) override;

 private:
  FlatMath& math_;
  std::vector<FlatRange> rate_ranges_;  ///< Those of the update: without weight decay
  std::vector<double> parameter_norms_;
  std::vector<double> direction_norms_;
  std::vector<float> factors_;  ///< Of the deck: optimizer.rates
  Storage direction_;
};

}  // namespace flotilla
