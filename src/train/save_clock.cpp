// SPDX-License-Identifier: Apache-2.0
#include "src/train/save_clock.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "src/observe/stopwatch.hpp"

namespace flotilla {

namespace {

constexpr double max_steps_between = 1e9;

}  // namespace

SaveClock::SaveClock(double every_s, std::int64_t step, std::int64_t now_ns)
    : every_s_(every_s), next_(step + 1), saved_ns_(now_ns), asked_step_(step), asked_ns_(now_ns) {}

bool SaveClock::ask(const mpi::Communicator& workers, std::int64_t steps, std::int64_t now_ns) {
  const double step_s =
      seconds(std::max<std::int64_t>(1, now_ns - asked_ns_)) / static_cast<double>(steps - asked_step_);
  double left_s = every_s_ - seconds(now_ns - saved_ns_);
  const bool due = left_s < step_s / 2.0;
  if (due) left_s = every_s_;
  const auto wait = static_cast<std::int64_t>(std::clamp(left_s / step_s / 2.0, 1.0, max_steps_between));
  std::array<std::int64_t, 2> decided{due ? 1 : 0, steps + wait};
  workers.broadcast(std::span<std::int64_t>(decided));
  next_ = decided[1];
  asked_step_ = steps;
  asked_ns_ = now_ns;
  return decided[0] != 0;
}

}  // namespace flotilla
