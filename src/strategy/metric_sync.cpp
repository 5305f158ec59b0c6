// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/metric_sync.hpp"

#include <algorithm>

namespace flotilla {

namespace {

/// Steps may be slower than those so far.
constexpr double catch_up_margin = 3.0;

}  // namespace

MetricSync::MetricSync(const mpi::Communicator& workers) : consensus_(workers, Told::count) {}

bool MetricSync::stops_after(const StepInfo& info, mpi::Watchdog& watchdog) {
  watchdog.beat("waiting to agree on a stop", info.step);
  const bool stops = consensus_.must_gather(info.step + 1, info.mean_step_s);
  if (!agreed_) watchdog.postpone_deadline(catch_up_margin * consensus_.catch_up_s());
  agreed_ = true;
  return stops;
}

void MetricSync::contribute(const StepOutcome& mine) {
  mine_[Told::samples] = mine.samples;
  mine_[Told::loss] = mine.samples > 0.0 ? mine.samples * mine.loss : 0.0;
  mine_[Told::top1] = mine.samples * mine.accuracy_top1;
  mine_[Told::top5] = mine.samples * mine.accuracy_top5;
  mine_[Told::samples_since] += mine_[Told::samples];
  mine_[Told::loss_since] += mine_[Told::loss];
}

StepOutcome MetricSync::sync(std::int64_t steps, std::source_location where) {
  StepOutcome outcome;
  outcome.stop = consensus_.gather(steps, mine_, sums_, where);
  for (std::size_t since = Told::samples_since; since < Told::count; ++since) mine_[since] = 0.0;
  outcome.samples = sums_[Told::samples];
  const double count = std::max(1.0, outcome.samples);
  outcome.loss = sums_[Told::loss] / count;
  outcome.accuracy_top1 = sums_[Told::top1] / count;
  outcome.accuracy_top5 = sums_[Told::top5] / count;
  return outcome;
}

}  // namespace flotilla
