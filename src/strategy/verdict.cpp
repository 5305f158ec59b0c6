// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/verdict.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla {

namespace {

/// Enough for a dynamic scale to come down from anywhere, and for a static one that a few bad batches are
/// none.
constexpr std::int64_t hopeless_in_a_row = 100;

void tell(bool taken, bool at_the_least, const LossScale& scale, StepOutcome& outcome) {
  outcome.skipped = !taken;
  outcome.hopeless =
      !taken && at_the_least && (!std::isfinite(outcome.loss) || scale.in_a_row() >= hopeless_in_a_row);
}

}  // namespace

bool can_be_taken(Device& device, const LossScale& scale, DeviceSpan<const float> gradients) {
  return !scale.looks() || device.flat().all_finite(gradients);
}

void judge(bool taken, LossScale& scale, StepOutcome& outcome) {
  if (!scale.looks()) return;
  const bool least = !scale.can_fall();
  scale.follow(taken);
  tell(taken, least, scale, outcome);
}

std::int64_t learn(std::span<const float> tells, LossScale& scale, StepOutcome& outcome) {
  if (tells[told_scale] == 0.0F) return 0;  // No step has been judged yet.
  const bool least = !scale.can_fall();
  const std::int64_t before = scale.skipped();
  LossScale::State state{};
  std::copy(tells.begin(), tells.end(), state.begin());
  scale.set_state(state);
  const std::int64_t skipped = scale.skipped() - before;
  tell(skipped == 0, least, scale, outcome);
  return skipped;
}

void keep_to_itself(Device& device, StepOutcome& outcome, DeviceSpan<float> array) {
  if (!outcome.skipped || std::isfinite(outcome.loss)) return;
  device.flat().fill(array.subspan(0, loss_sums), 0.0F);
  outcome.samples = 0.0;
}

}  // namespace flotilla
