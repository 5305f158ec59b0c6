// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "src/optim/optimizer.hpp"

namespace flotilla {

/// An optimizer that sets a rate for each tensor from norms. On devices that run ahead of the host the norms
/// stay there, unless other processes hold parts of the tensors.
class LayerwiseOptimizer : public Optimizer {
 public:
  LayerwiseOptimizer(const OptimizerConfig& config, const ArenaLayout& layout, Device& device);

 protected:
  /// An update with the rate factor of each of `in.ranges`, one per tensor, multiplied by its trust ratio.
  void update_by_norms(UpdateInput in, const TrustRatio& ratio, const UpdateRule& by,
                       const UpdateState& with);

 private:
  FlatMath& math_;
  bool runs_ahead_;
  std::vector<double> parameter_norms_;
  std::vector<double> gradient_norms_;
  std::vector<FlatRange> scaled_ranges_;
};

/// Momentum with a rate per tensor (formula: make_optimizer).
class Lars : public LayerwiseOptimizer {
 public:
  Lars(const OptimizerConfig& config, const ArenaLayout& layout, Device& device);

 protected:
  void update(UpdateInput in) override;

 private:
  TrustRatio ratio_;
};

/// Adam's direction with a rate per tensor (formula: make_optimizer).
class Lamb : public LayerwiseOptimizer {
 public:
  Lamb(const OptimizerConfig& config, const ArenaLayout& layout, Device& device);

 protected:
  void update(UpdateInput in) override;

 private:
  std::vector<FlatRange> rate_ranges_;  ///< Those of the update: without weight decay
  Storage direction_;
};

}  // namespace flotilla
