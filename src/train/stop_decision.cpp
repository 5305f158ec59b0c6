// SPDX-License-Identifier: Apache-2.0
#include "src/train/stop_decision.hpp"

#include <algorithm>
#include <csignal>
#include <span>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/job/stop_request.hpp"

namespace flotilla {

namespace {

constexpr double agreement_deadline_s = 10.0;
/// Steps within which all agree on a stop. Workers that step alone pass a request on after a step, along a
/// tree of two levels up to 1,057 workers (mpi/core/rank_tree.hpp): four hops, the step after which all
/// gather, and one more for a slower worker.
constexpr double agreement_steps = 6.0;
constexpr const char* stopped_reason = "stopped";
constexpr const char* time_limit_reason = "time limit";
constexpr const char* time_is_up_reason = "time is up";

}  // namespace

StopDecision::StopDecision(const Config& config, const Machine& machine, Reporter& reporter,
                           const TimeLimit& limit, const TrainingState& state)
    : config_(config.train),
      machine_(machine),
      reporter_(reporter),
      limit_(limit),
      state_(state),
      time_is_up_(config.train.seconds > 0.0 && state.seconds_before >= config.train.seconds) {}

bool StopDecision::asked_to_stop(const WorkToCome& work) {
  if (!reason_.empty()) return true;
  if (const int signal = stop_signal(); signal != 0) {
    reason_ = stopped_reason;
    reporter_.say(cat("signal ", signal,
                      " received: stopping after this step; the same command resumes the run",
                      signal == SIGINT ? "; once more ends the run at once, without saving" : ""));
    // The duration of a step is not known before the first one.
    if (state_.times.steps > 0)
      machine_.watchdog.set_deadline(std::max(agreement_deadline_s, agreement_steps * longest_step_s()));
  } else if (limit_.is_set() && limit_.reached(trace::now_ns(), work)) {
    // One worker's clock decides, and that of the one which reports the reason.
    reason_ = time_limit_reason;
  } else if (config_.seconds > 0.0 && machine_.workers.is_root() && state_.trained_s() >= config_.seconds) {
    reason_ = time_is_up_reason;
  }
  return !reason_.empty();
}

void StopDecision::accept() {
  if (reason_.empty()) reason_ = stopped_reason;
  machine_.watchdog.clear_deadline();
}

void StopDecision::agree() {
  if (config_.seconds <= 0.0) return;
  std::int32_t up = time_is_up_ || reason_ == time_is_up_reason ? 1 : 0;
  machine_.workers.all_reduce(std::span(&up, 1), mpi::Op::max, state_.step);
  time_is_up_ = up > 0;
  if (time_is_up_) reason_.clear();
}

bool StopDecision::is_too_short() const {
  return state_.times.steps <= 1 && reason_ == time_limit_reason && limit_.is_slurms(trace::now_ns());
}

void StopDecision::note_step(std::int64_t step_ns) {
  longest_step_ns_ = std::max(longest_step_ns_, step_ns);
}

}  // namespace flotilla
