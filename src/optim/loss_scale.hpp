// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "kernels/loss_scale_rule.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// The factor of the loss before a backward pass in float16, so that small gradients are not
/// rounded to zero; the optimizer divides by it. A step whose gradients overflow is skipped, and the scale
/// follows (Micikevicius et al. 2018; constants and rule: docs/fleet.md, "Loss scale of float16"):
///
///     overflow  good ← 0, bad + 1;  bad = backoff_every: scale ← max(1, backoff · scale), bad ← 0
///     else      bad ← 0, good + 1;  good = growth_every: scale ← growth · scale if finite, good ← 0
///
/// A static scale stays. Scales that follow the same sequence of steps are equal.
class LossScale {
 public:
  LossScale() = default;  ///< 1, and no step is checked.
  explicit LossScale(const LossScaleConfig& config);

  /// Whether steps are checked for overflow, and those that overflow skipped.
  bool enabled() const { return enabled_; }
  float scale() const { return now_.scale; }
  void adjust(bool finite) {
    adjust_scale(rule_, now_, finite);
  }                                                      ///< To be called after each step that was checked
  std::int64_t skipped() const { return now_.skipped; }  ///< Steps since the start of training
  /// Steps that overflowed one after another at the present scale.
  std::int64_t consecutive_overflows() const { return now_.consecutive_overflows; }
  bool can_fall() const { return flotilla::can_fall(rule_, now_); }
  const ScaleRule& rule() const { return rule_; }
  const ScaleState& now() const { return now_; }
  std::string text() const;  ///< "dynamic, now 32768"

  /// For checkpoints: "loss_scale", "loss_scale_good", "loss_scale_bad", "skipped_steps"; empty where no step
  /// is checked.
  std::map<std::string, double> numbers() const;
  /// Restores the numbers that are present. A static scale remains the deck's.
  void set_numbers(const std::map<std::string, double>& numbers);
  /// The state in a fixed size, to be sent to other workers.
  using State = std::array<double, 4>;
  State state() const;
  void set_state(const State& state);

 private:
  bool enabled_ = false;
  ScaleRule rule_;
  ScaleState now_;
};

/// float16: as device.loss_scale says. float32 and bfloat16, whose range is the same: none.
LossScale make_loss_scale(const DeviceConfig& device);

}  // namespace flotilla
