// SPDX-License-Identifier: Apache-2.0
#include "mpi/watchdog/thread_activity.hpp"

#include <utility>

namespace flotilla::mpi {

namespace {

/// Processor time of a thread, seconds; 0: it has ended.
double processor_time_s(clockid_t thread) {
  timespec time{};
  if (clock_gettime(thread, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

/// One thread beats: no read-modify-write needed.
void ThreadActivity::beat(ActivityState is) {
  state_.store(is, std::memory_order_relaxed);
  beats_.store(beats_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void ThreadActivity::beat(ActivityState is, const char* what, std::int64_t step, std::int64_t index) {
  what_.store(what, std::memory_order_relaxed);
  step_.store(step, std::memory_order_relaxed);
  index_.store(index, std::memory_order_relaxed);
  beat(is);
}

void ThreadActivity::set_working_thread(clockid_t clock) {
  working_thread_.store(clock, std::memory_order_relaxed);
}

Activity ThreadActivity::activity() const {
  return {what_.load(std::memory_order_relaxed), step_.load(std::memory_order_relaxed),
          index_.load(std::memory_order_relaxed)};
}

Presence ThreadActivity::presence() const {
  const Activity now = activity();
  const ActivityState is = state_.load(std::memory_order_relaxed);
  Presence presence{.step = now.step,
                    .index = now.index,
                    .done = is == ActivityState::done ? 1 : 0,
                    .files = is == ActivityState::working || is == ActivityState::at_disk ? 1 : 0};
  presence.set_what(now.what);
  return presence;
}

bool ThreadActivity::worked() {
  if (state_.load(std::memory_order_relaxed) != ActivityState::working) return false;
  const double time_s = processor_time_s(working_thread_.load(std::memory_order_relaxed));
  return std::exchange(worked_s_, time_s) != time_s;
}

}  // namespace flotilla::mpi
