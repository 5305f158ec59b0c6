// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "kernels/scale_rule.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// What the loss is multiplied with before a backward pass in float16, so that small gradients are not
/// rounded to zero; the optimizer divides by it. A step whose gradients overflow is skipped, and the scale
/// follows (Micikevicius et al. 2018; constants and rule: fleet.md §4, but that skipped steps are skipped):
///
///     overflow  good ← 0, bad + 1;  bad = backoff_every: scale ← max(1, backoff · scale), bad ← 0
///     else      bad ← 0, good + 1;  good = growth_every: scale ← growth · scale if finite, good ← 0
///
/// A static scale stays. All that follow the same verdicts have the same scale.
class LossScale {
 public:
  LossScale() = default;  ///< 1, and no step is looked at.
  explicit LossScale(const LossScaleConfig& config);

  bool looks() const { return looks_; }  ///< Whether steps are looked at, and those that overflow skipped.
  float scale() const { return now_.scale; }
  void follow(bool finite) {
    flotilla::follow(rule_, now_, finite);
  }                                                        ///< After each step that was looked at.
  std::int64_t skipped() const { return now_.skipped; }    ///< Steps, since the start of training.
  std::int64_t in_a_row() const { return now_.in_a_row; }  ///< Of them, the last ones at this scale.
  bool can_fall() const { return flotilla::can_fall(rule_, now_); }
  const ScaleRule& rule() const { return rule_; }
  const ScaleState& now() const { return now_; }
  std::string text() const;  ///< "dynamic, now 32768"

  /// For checkpoints: "loss_scale", "loss_scale_good", "loss_scale_bad", "skipped_steps"; empty where no step
  /// is looked at.
  std::map<std::string, double> numbers() const;
  /// Takes them over where they are there. A static scale stays the deck's.
  void set_numbers(const std::map<std::string, double>& numbers);
  /// The same state in a fixed size, to be sent.
  using State = std::array<double, 4>;
  State state() const;
  void set_state(const State& state);

 private:
  bool looks_ = false;
  ScaleRule rule_;
  ScaleState now_;
};

/// float16: as device.loss_scale says. float32 and bfloat16, whose range is the same: none.
LossScale make_loss_scale(const DeviceConfig& device);

}  // namespace flotilla
