// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/device.hpp"
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
/// sgd with γ = 1 is none.
///
/// Eager updates (Kale et al. 2025) take, where worker m of M would wait for the mean of the differences
/// Δ_t = θ − x_t from its own values x, the other workers' of the period before:
///
///     g = (Σ Δ_{t−1} + Δ_t^m − Δ_{t−1}^m) / M,  Δ_0 = 0
///
/// so that each worker has its own θ and u.
class OuterStep {
 public:
  /// @param keep_anchor keep θ also where the update does not need it
  OuterStep(const LocalSgdConfig& config, Device& device, std::size_t parameters, bool keep_anchor);

  /// θ; empty where it is not needed.
  DeviceSpan<float> anchor() const { return anchor_; }
  /// u; empty where there is none.
  DeviceSpan<float> velocity() const { return velocity_; }
  /// All workers go on from these parameters, and nothing is on its way.
  void set_anchor(DeviceSpan<const float> parameters);
  /// `parameters`, those from the `first` on, hold m before the call and the new θ after it.
  void step(DeviceSpan<float> parameters, std::size_t first, double learning_rate);
  /// Eager updates. `parameters` hold x_t before the call and θ − g after it, for step(); `sum` holds Σ
  /// Δ_{t−1} before it and Δ_t^m after it.
  void anticipate(DeviceSpan<float> parameters, DeviceSpan<float> sum, int workers);
  std::size_t held() const { return anchor_.size() + velocity_.size() + difference_.size(); }  ///< Floats
  /// u, θ and Δ^m, for checkpoints.
  std::vector<StateArray> arrays();

 private:
  OuterKind kind_;
  float rate_;
  float momentum_;
  FlatMath& flat_;
  Storage anchor_storage_;
  Storage velocity_storage_;
  DeviceSpan<float> anchor_;
  DeviceSpan<float> velocity_;
  Storage difference_;  ///< Δ^m; empty unless updates are eager
};

}  // namespace flotilla
