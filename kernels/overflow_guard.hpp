// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device_scalar.hpp"
#include "kernels/flat_updates.hpp"
#include "kernels/loss_scale_rule.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

struct OverflowGuardSpec {
  ScaleRule rule;
  float loss_divisor = 1.0F;  ///< Backward multiplies with scale / loss_divisor.
  float beta1 = 0.0F;         ///< β₁ of Adam and LAMB: UpdateNumbers' corrections
  float beta2 = 0.0F;
  friend bool operator==(const OverflowGuardSpec&, const OverflowGuardSpec&) = default;
};

/// Indices into the report of a check, floats: the ScaleState after the step.
enum ScalerReport : std::size_t {
  report_scale = 0,
  report_good = 1,
  report_consecutive = 2,
  report_skipped = 3,
  report_floats = 4
};

/// Decides on a device whether a step in float16 is taken or overflowed, and which loss scale is next. The
/// host enqueues the update before the decision is known and reads the report later. A step that is not
/// taken changes nothing.
class OverflowGuard {
 public:
  virtual ~OverflowGuard() = default;
  /// Before the first step. @param steps that the optimizer has taken
  virtual void begin(const ScaleState& state, std::int64_t steps) = 0;
  /// The factor of the loss in backward.
  virtual DeviceScalar<float> backward_scale() const = 0;
  /// Checks whether all of `array` is finite, writes `report` (report_floats on the device) and sets the
  /// next backward_scale(). @param summed gradients that the sum is made of
  /// @returns the numbers for the step's update, with which an overflowed step changes nothing
  virtual const UpdateNumbers* check(DeviceSpan<const float> array, float learning_rate, double summed,
                                     DeviceSpan<float> report) = 0;
  /// values ← before, if the step is not taken.
  virtual void restore(DeviceSpan<const float> before, DeviceSpan<float> values) = 0;
};

}  // namespace flotilla
