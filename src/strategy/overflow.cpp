// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/overflow.hpp"

#include <algorithm>
#include <cmath>

namespace flotilla {

namespace {

/// Overflows in consecutive steps that mean failure: enough for a dynamic scale to fall to its minimum, and
/// more than a few bad batches cause under a static one.
constexpr std::int64_t unrecoverable_overflows = 100;

void tell(bool taken, bool at_the_least, const LossScale& scale, StepOutcome& outcome) {
  outcome.skipped = !taken;
  outcome.unrecoverable =
      !taken && at_the_least &&
      (!std::isfinite(outcome.loss) || scale.consecutive_overflows() >= unrecoverable_overflows);
}

}  // namespace

bool gradients_are_usable(Device& device, const LossScale& scale, DeviceSpan<const float> gradients) {
  return !scale.enabled() || device.flat().all_finite(gradients);
}

void update_loss_scale(bool taken, LossScale& scale, StepOutcome& outcome) {
  if (!scale.enabled()) return;
  const bool least = !scale.can_fall();
  scale.adjust(taken);
  tell(taken, least, scale, outcome);
}

std::int64_t adopt_device_result(std::span<const float> report, LossScale& scale, StepOutcome& outcome) {
  if (report[report_scale] == 0.0F) return 0;  // No step has been checked yet.
  const bool least = !scale.can_fall();
  const std::int64_t before = scale.skipped();
  LossScale::State state{};
  std::copy(report.begin(), report.end(), state.begin());
  scale.set_state(state);
  const std::int64_t skipped = scale.skipped() - before;
  tell(skipped == 0, least, scale, outcome);
  return skipped;
}

void exclude_own_sums(Device& device, StepOutcome& outcome, DeviceSpan<float> array) {
  if (!outcome.skipped || std::isfinite(outcome.loss)) return;
  device.flat().fill(array.subspan(0, loss_sums), 0.0F);
  outcome.samples = 0.0;
}

}  // namespace flotilla
