// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/flat_math.hpp"
#include "kernels/late.hpp"
#include "kernels/scale_rule.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

struct JudgeSpec {
  ScaleRule rule;
  float loss_divisor = 1.0F;  ///< Backward multiplies with scale / loss_divisor.
  float beta1 = 0.0F;         ///< Of Adam and LAMB: UpdateNumbers' corrections
  float beta2 = 0.0F;
  friend bool operator==(const JudgeSpec&, const JudgeSpec&) = default;
};

/// What a judge tells of a step, as floats, in this order: ScaleState after it.
enum JudgeTells : std::size_t {
  told_scale = 0,
  told_good = 1,
  told_in_a_row = 2,
  told_skipped = 3,
  told_floats = 4
};

/// Decides on a device whether a step in float16 is taken or overflowed, and what loss scale is the next: the
/// host hands out the step's update without knowing, and learns of it when it reads what the judge tells. A
/// step that is not taken changes nothing.
class StepJudge {
 public:
  virtual ~StepJudge() = default;
  /// Before the first step. @param steps that the optimizer has taken
  virtual void begin(const ScaleState& state, std::int64_t steps) = 0;
  /// What backward multiplies the loss with.
  virtual Late<float> backward_scale() const = 0;
  /// Looks whether `array` is finite. `tells`, told_floats of the device, is what became of it, and
  /// backward's next scale follows. @param summed gradients that the sum is made of
  /// @returns what the step's update reads: with that an optimizer's step is not taken where it must not be.
  virtual const UpdateNumbers* judge(DeviceSpan<const float> array, float learning_rate, double summed,
                                     DeviceSpan<float> tells) = 0;
  /// values ← before, if the step is not taken.
  virtual void restore(DeviceSpan<const float> before, DeviceSpan<float> values) = 0;
};

}  // namespace flotilla
