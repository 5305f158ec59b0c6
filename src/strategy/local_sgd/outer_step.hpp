// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "src/config/config.hpp"
#include "src/strategy/state_array.hpp"

namespace flotilla {

/// The outer optimizer of local SGD. With θ the parameters after the previous averaging, m the mean of the
/// workers' parameters now, g = θ − m, γ = learning_rate, μ = momentum and η the workers' learning rate:
///
///     none      θ ← m
///     sgd       θ ← θ − γ g
///     momentum  u ← μ u + g / η;  θ ← θ − γ η u      (SlowMo, Wang et al. 2020; not while η = 0: θ ← m)
///     nesterov  u ← μ u + g;      θ ← θ − γ (g + μ u)   (DiLoCo, Douillard et al. 2023)
///
/// sgd with γ = 1 is none to rounding.
class OuterStep {
 public:
  /// @param keep_anchor keep θ also where the update does not need it
  OuterStep(const OuterConfig& config, Device& device, std::size_t parameters, bool keep_anchor);

  /// θ; empty where it is not needed.
  DeviceSpan<float> anchor() const { return anchor_; }
  void set_anchor(DeviceSpan<const float> parameters);
  /// `parameters` hold m before the call and the new θ after it.
  void step(DeviceSpan<float> parameters, double learning_rate);
  std::size_t held() const { return anchor_.size() + velocity_.size(); }  ///< Floats
  /// θ and u, for checkpoints.
  std::vector<StateArray> arrays();

 private:
  OuterKind kind_;
  float rate_;
  float momentum_;
  FlatMath& flat_;
  Storage anchor_storage_;
  Storage velocity_storage_;
  DeviceSpan<float> anchor_;
  DeviceSpan<float> velocity_;  ///< u; empty where there is none
};

}  // namespace flotilla
