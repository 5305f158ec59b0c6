// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// Whether a step can be taken: all of its array (loss sums, statistics, gradients) is finite, or nobody
/// looks.
bool can_be_taken(Device& device, const LossScale& scale, DeviceSpan<const float> gradients);

/// Lets the scale follow, and says in the outcome what became of the step. `outcome.loss` is that of the
/// workers that the verdict is of.
void judge(bool taken, LossScale& scale, StepOutcome& outcome);

/// The same where the device has judged, and tells what became of the scale (JudgeTells): of this step, or,
/// of a late outcome, of the one before. @returns steps skipped since the last call
std::int64_t learn(std::span<const float> tells, LossScale& scale, StepOutcome& outcome);

/// A step that a worker alone has skipped: a loss that is not finite is not told to the others. The sums at
/// the start of `array` and those in the outcome become those of no samples.
void keep_to_itself(Device& device, StepOutcome& outcome, DeviceSpan<float> array);

}  // namespace flotilla
