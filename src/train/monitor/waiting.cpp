// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/waiting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/median.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

namespace {

/// The last one: it fell behind in none of its phases.
constexpr std::array<const char*, phase_count + 1> phase_names = {
    "waiting for input",  "compute",  "the optimizer", "saving", "validation",
    "the emulated pause", "the rest", "communication"};
constexpr double worth_a_word = 0.05;   ///< Of the time
constexpr double worth_a_word_s = 0.1;  ///< Less is a hiccup of the machine

/// Of all but one.
double median_of_others(std::vector<double> values, std::size_t left_out) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(left_out));
  return values.empty() ? 0.0 : median(std::move(values));
}

std::size_t largest(std::span<const double> values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

std::vector<double> costs_s(const Lateness& lateness) {
  std::vector<double> costs;
  for (const std::int64_t cost : lateness.cost_ns) costs.push_back(seconds(cost));
  return costs;
}

/// The worker of the largest cost.
void blame(Waiting& waiting, const Lateness& lateness) {
  const std::vector<double> costs = costs_s(lateness);
  const std::size_t slowest = largest(costs);
  waiting.slowest = static_cast<int>(slowest);
  waiting.times_last = lateness.times_last[slowest];
  waiting.cost_s = costs[slowest];
  waiting.usual_s = median_of_others(costs, slowest);
}

}  // namespace

Spending& Spending::operator-=(const Spending& other) {
  wait_ns -= other.wait_ns;
  for (std::size_t i = 0; i < phase_count; ++i) phase_ns[i] -= other.phase_ns[i];
  return *this;
}

bool Waiting::stands_out() const {
  return meetings > 0 && cost_s > worth_a_word_s && cost_s - usual_s > worth_a_word * elapsed_s;
}

std::string Waiting::text(int rank, const std::string& host) const {
  return fmt::format("rank {} on {}: last {} of {} times, in {}, cost all {:.0f} % ({:.{}f} s)", rank, host,
                     times_last, meetings, phase, 100.0 * cost_s / std::max(elapsed_s, 1e-9), cost_s,
                     cost_s < 1.0 ? 2 : 1);
}

WaitingLog::WaitingLog(const mpi::Communicator& world, std::size_t capacity)
    : world_(world),
      kept_(capacity),
      whole_(world.size()),
      phase_cost_s_(static_cast<std::size_t>(world.size()) * phase_names.size()) {
  require(capacity > 1, "a log of ", capacity, " meetings");
}

void WaitingLog::after_step(std::int64_t meetings, const Spending& total) {
  if (meetings == meetings_) return;
  meetings_ = meetings;
  Spending spent = total;
  spent -= at_meeting_;
  at_meeting_ = total;
  if (met_++ % stride_ == 0) keep(spent);
}

/// Every worker keeps the same meetings: which ones depends on their number alone.
void WaitingLog::keep(const Spending& spent) {
  if (count_ == kept_.size()) {
    for (std::size_t i = 0; 2 * i < count_; ++i) kept_[i] = kept_[2 * i];
    count_ = (count_ + 1) / 2;
    stride_ *= 2;
    if ((met_ - 1) % stride_ != 0) return;
  }
  kept_[count_++] = spent;
}

/// Collective.
Lateness WaitingLog::lateness_of_kept(std::vector<int>& last_of) const {
  std::vector<float> mine;
  for (std::size_t i = 0; i < count_; ++i) mine.push_back(static_cast<float>(kept_[i].wait_ns));
  const std::vector<float> all = world_.all_gather(std::span<const float>(mine));
  Lateness lateness(world_.size());
  std::vector<std::int64_t> waits(static_cast<std::size_t>(world_.size()));
  for (std::size_t i = 0; i < count_; ++i) {
    for (std::size_t worker = 0; worker < waits.size(); ++worker)
      waits[worker] = static_cast<std::int64_t>(all[worker * count_ + i]);
    lateness.record(waits);
    last_of.push_back(static_cast<int>(std::ranges::min_element(waits) - waits.begin()));
  }
  return lateness;
}

Waiting WaitingLog::gather() {
  Waiting waiting;
  if (count_ == 0 || world_.size() == 1) return waiting;
  std::vector<int> last_of;
  Lateness lateness = lateness_of_kept(last_of);
  const double share = static_cast<double>(met_) / static_cast<double>(count_);  // most often 1
  for (std::size_t worker = 0; worker < lateness.cost_ns.size(); ++worker) {
    lateness.times_last[worker] = std::llround(share * static_cast<double>(lateness.times_last[worker]));
    lateness.cost_ns[worker] = std::llround(share * static_cast<double>(lateness.cost_ns[worker]));
    whole_.times_last[worker] += lateness.times_last[worker];
    whole_.cost_ns[worker] += lateness.cost_ns[worker];
  }
  waiting.meetings = met_;
  blame(waiting, lateness);

  // What each worker did before the meetings to which the slowest came last, and over all of them.
  constexpr std::size_t width = phase_count + 3;
  std::array<double, width> mine{};
  for (std::size_t i = 0; i < count_; ++i) {
    if (last_of[i] != waiting.slowest) continue;
    for (std::size_t phase = 0; phase < phase_count; ++phase)
      mine[phase] += share * seconds(kept_[i].phase_ns[phase]);
  }
  Spending since = at_meeting_;
  since -= at_report_;
  mine[phase_count] = seconds(since.wait_ns);
  mine[phase_count + 1] = seconds(since[Phase::compute]);
  for (const std::int64_t ns : since.phase_ns) mine[phase_count + 2] += seconds(ns);
  const std::vector<double> all = world_.all_gather(std::span<const double>(mine));
  const auto column = [&](std::size_t index) {
    std::vector<double> values;
    for (std::size_t at = index; at < all.size(); at += width) values.push_back(all[at]);
    return values;
  };
  const auto mean = [&](std::size_t index) {
    double sum = 0.0;
    for (const double value : column(index)) sum += value;
    return sum / world_.size();
  };
  const auto slowest = static_cast<std::size_t>(waiting.slowest);
  std::vector<double> behind;
  for (std::size_t phase = 0; phase < phase_count; ++phase)
    behind.push_back(column(phase)[slowest] - median_of_others(column(phase), slowest));
  const std::size_t culprit = behind[largest(behind)] > 0.1 * waiting.cost_s ? largest(behind) : phase_count;
  waiting.phase = phase_names[culprit];
  waiting.wait_s = mean(phase_count);
  waiting.compute_s = mean(phase_count + 1);
  waiting.elapsed_s = waiting.wait_s + mean(phase_count + 2);

  phase_cost_s_[slowest * phase_names.size() + culprit] += waiting.cost_s;
  sums_.meetings += waiting.meetings;
  sums_.elapsed_s += waiting.elapsed_s;
  sums_.wait_s += waiting.wait_s;
  sums_.compute_s += waiting.compute_s;
  at_report_ = at_meeting_;
  count_ = 0;
  met_ = 0;
  stride_ = 1;
  return waiting;
}

Waiting WaitingLog::whole() const {
  Waiting waiting = sums_;
  blame(waiting, whole_);
  const std::span costs(phase_cost_s_);
  const std::size_t begin = static_cast<std::size_t>(waiting.slowest) * phase_names.size();
  waiting.phase = phase_names[largest(costs.subspan(begin, phase_names.size()))];
  return waiting;
}

}  // namespace flotilla
