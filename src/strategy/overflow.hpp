// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// Whether a step can be taken: all of its array (loss sums, statistics, gradients) is finite, or overflow
/// is not checked (LossScale::enabled).
bool gradients_are_usable(Device& device, const LossScale& scale, DeviceSpan<const float> gradients);

/// Updates the scale and records in the outcome whether the step was skipped. `outcome.loss` is of the
/// workers for which `taken` was decided.
void update_loss_scale(bool taken, LossScale& scale, StepOutcome& outcome);

/// Takes over a decision that the device made: `report` (ScalerReport) is about this step, or about the step
/// before where outcomes are delayed. @returns steps skipped since the last call
std::int64_t adopt_device_result(std::span<const float> report, LossScale& scale, StepOutcome& outcome);

/// For a step that only this worker skipped: sets the loss sums in the header of `array` and in the outcome
/// to those of no samples, so that a loss that is not finite does not reach the other workers.
void exclude_own_sums(Device& device, StepOutcome& outcome, DeviceSpan<float> array);

}  // namespace flotilla
