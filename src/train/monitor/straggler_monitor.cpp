// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/straggler_monitor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <thread>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/median.hpp"
#include "kernels/trace.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

LastArrivals::LastArrivals(int workers)
    : times_last(static_cast<std::size_t>(workers)), cost_ns(static_cast<std::size_t>(workers)) {}

void LastArrivals::record(int last, std::int64_t cost) {
  ++synchronisations;
  ++times_last.at(static_cast<std::size_t>(last));
  cost_ns[static_cast<std::size_t>(last)] += cost;
}

namespace {

constexpr const char* equal_cores =
    "give all ranks as many free cores (device.threads, srun --exclusive), and stop other programs there";

/// A phase in which a worker falls behind, and what helps.
struct PhaseText {
  const char* name;
  const char* remedy;
};

/// The last one: it fell behind in none of its phases.
constexpr std::array<PhaseText, phase_count + 1> phases = {
    {{"waiting for input", "more data.threads, or data.stage_to where its files are slow"},
     {"compute", equal_cores},
     {"the optimizer", equal_cores},
     {"saving", "save less often (checkpoint.every, checkpoint.every_s)"},
     {"validation", "validate less often (validation.every)"},
     {"the emulated pause", "run.emulate_straggler asks for it"},
     {"the rest", equal_cores},
     {"communication", "compare its host's network with the others' (run.check_network)"}}};

/// The median of all values but one.
double median_of_others(std::vector<double> values, std::size_t left_out) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(left_out));
  return values.empty() ? 0.0 : median(std::move(values));
}

std::size_t largest(std::span<const double> values) {
  return static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
}

std::vector<double> costs_s(const LastArrivals& arrivals) {
  std::vector<double> costs;
  for (const std::int64_t cost : arrivals.cost_ns) costs.push_back(seconds(cost));
  return costs;
}

/// The worker of the largest cost.
void blame(StragglerReport& report, const LastArrivals& arrivals) {
  const std::vector<double> costs = costs_s(arrivals);
  const std::size_t slowest = largest(costs);
  report.slowest = static_cast<int>(slowest);
  report.times_last = arrivals.times_last[slowest];
  report.cost_s = costs[slowest];
  report.usual_s = median_of_others(costs, slowest);
}

}  // namespace

StepTimes& StepTimes::operator-=(const StepTimes& other) {
  wait_ns -= other.wait_ns;
  for (std::size_t i = 0; i < phase_count; ++i) phase_ns[i] -= other.phase_ns[i];
  return *this;
}

bool StragglerReport::stands_out() const {
  constexpr double worth_a_word = 0.05;   // of the time
  constexpr double worth_a_word_s = 0.1;  // less is a hiccup of the machine
  return synchronisations > 0 && cost_s > worth_a_word_s && cost_s - usual_s > worth_a_word * elapsed_s;
}

std::string StragglerReport::text(int rank, const std::string& host) const {
  return fmt::format("rank {} on {}: last {} of {} times, in {}, cost all {:.0f} % ({:.{}f} s)", rank, host,
                     times_last, synchronisations, phase, 100.0 * cost_s / std::max(elapsed_s, 1e-9), cost_s,
                     cost_s < 1.0 ? 2 : 1);
}

std::string StragglerReport::remedy() const {
  const auto* const found = std::ranges::find(phases, phase, &PhaseText::name);
  return found == phases.end() ? equal_cores : found->remedy;
}

StragglerMonitor::StragglerMonitor(const mpi::Communicator& world, std::size_t capacity)
    : world_(world),
      kept_(capacity),
      whole_(world.size()),
      phase_cost_s_(static_cast<std::size_t>(world.size()) * phases.size()) {
  require(capacity > 1, "a log of ", capacity, " synchronisations");
}

void StragglerMonitor::after_step(std::int64_t synchronisations, const StepTimes& total) {
  if (synchronisations == synchronisations_) return;
  synchronisations_ = synchronisations;
  StepTimes spent = total;
  spent -= at_synchronisation_;
  at_synchronisation_ = total;
  if (recorded_++ % stride_ == 0) keep(spent);
}

/// Every worker keeps the same synchronisations: which ones depends on their number alone.
void StragglerMonitor::keep(const StepTimes& spent) {
  if (count_ == kept_.size()) {
    for (std::size_t i = 0; 2 * i < count_; ++i) kept_[i] = kept_[2 * i];
    count_ = (count_ + 1) / 2;
    stride_ *= 2;
    if ((recorded_ - 1) % stride_ != 0) return;
  }
  kept_[count_++] = spent;
}

/// Collective. Reduces the waits to the least and the next, whatever the number of workers.
LastArrivals StragglerMonitor::arrivals_of_kept(std::vector<int>& last_of) const {
  const std::int64_t workers = world_.size();
  std::vector<std::int64_t> mine;  // wait × workers + worker: the first of equal waits is the least
  for (std::size_t i = 0; i < count_; ++i) mine.push_back(kept_[i].wait_ns * workers + world_.rank());
  std::vector<std::int64_t> least = mine;
  world_.all_reduce(std::span(least), mpi::Op::min);
  for (std::size_t i = 0; i < count_; ++i)
    if (mine[i] == least[i]) mine[i] = std::numeric_limits<std::int64_t>::max();
  world_.all_reduce(std::span(mine), mpi::Op::min);
  LastArrivals arrivals(world_.size());
  for (std::size_t i = 0; i < count_; ++i) {
    last_of.push_back(static_cast<int>(least[i] % workers));
    arrivals.record(last_of.back(), mine[i] / workers - least[i] / workers);
  }
  return arrivals;
}

StragglerReport StragglerMonitor::gather() {
  StragglerReport report;
  if (count_ == 0 || world_.size() == 1) return report;
  std::vector<int> last_of;
  LastArrivals arrivals = arrivals_of_kept(last_of);
  const double share = static_cast<double>(recorded_) / static_cast<double>(count_);  // most often 1
  for (std::size_t worker = 0; worker < arrivals.cost_ns.size(); ++worker) {
    arrivals.times_last[worker] = std::llround(share * static_cast<double>(arrivals.times_last[worker]));
    arrivals.cost_ns[worker] = std::llround(share * static_cast<double>(arrivals.cost_ns[worker]));
    whole_.times_last[worker] += arrivals.times_last[worker];
    whole_.cost_ns[worker] += arrivals.cost_ns[worker];
  }
  report.synchronisations = recorded_;
  blame(report, arrivals);

  // The phases of each worker before the synchronisations at which the slowest arrived last, and over all of
  // them.
  constexpr std::size_t width = phase_count + 3;
  std::array<double, width> mine{};
  for (std::size_t i = 0; i < count_; ++i) {
    if (last_of[i] != report.slowest) continue;
    for (std::size_t phase = 0; phase < phase_count; ++phase)
      mine[phase] += share * seconds(kept_[i].phase_ns[phase]);
  }
  StepTimes since = at_synchronisation_;
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
  const auto slowest = static_cast<std::size_t>(report.slowest);
  std::vector<double> behind;
  for (std::size_t phase = 0; phase < phase_count; ++phase)
    behind.push_back(column(phase)[slowest] - median_of_others(column(phase), slowest));
  const std::size_t culprit = behind[largest(behind)] > 0.1 * report.cost_s ? largest(behind) : phase_count;
  report.phase = phases[culprit].name;
  report.wait_s = mean(phase_count);
  report.compute_s = mean(phase_count + 1);
  report.elapsed_s = report.wait_s + mean(phase_count + 2);

  phase_cost_s_[slowest * phases.size() + culprit] += report.cost_s;
  sums_.synchronisations += report.synchronisations;
  sums_.elapsed_s += report.elapsed_s;
  sums_.wait_s += report.wait_s;
  sums_.compute_s += report.compute_s;
  at_report_ = at_synchronisation_;
  count_ = 0;
  recorded_ = 0;
  stride_ = 1;
  return report;
}

StragglerReport StragglerMonitor::whole() const {
  StragglerReport report = sums_;
  blame(report, whole_);
  const std::span costs(phase_cost_s_);
  const std::size_t begin = static_cast<std::size_t>(report.slowest) * phases.size();
  report.phase = phases[largest(costs.subspan(begin, phases.size()))].name;
  return report;
}

EmulatedStraggler::EmulatedStraggler(const EmulatedStragglerConfig& config, int rank, int workers)
    : config_(config), rank_(rank), workers_(workers) {
  if (config.rank >= workers)
    throw UserError(cat("run.emulate_straggler.rank = ", config.rank, ", but there ",
                        workers == 1 ? "is 1 worker" : cat("are ", workers, " workers"), ": give at most ",
                        workers - 1));
}

std::int64_t EmulatedStraggler::pause(std::int64_t step, std::int64_t compute_ns) const {
  if (!emulates() || step % config_.every != 0) return 0;
  const std::int64_t turn = config_.take_turns ? step / config_.every : 0;
  if ((config_.rank + turn) % workers_ != rank_) return 0;
  const double pause_ns = config_.pause_s > 0.0
                              ? config_.pause_s * 1e9
                              : (config_.slow_factor - 1.0) * static_cast<double>(compute_ns);
  const trace::Span span("emulated pause");
  const std::int64_t begin_ns = trace::now_ns();
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::llround(pause_ns)));
  return trace::now_ns() - begin_ns;
}

std::string EmulatedStraggler::description() const {
  if (config_.rank < 0) return "";
  return fmt::format("{}rank {} {}{}", config_.take_turns ? "in turn, beginning with " : "", config_.rank,
                     config_.pause_s > 0.0 ? fmt::format("pauses {} s", config_.pause_s)
                                           : fmt::format("computes {} times as long", config_.slow_factor),
                     config_.every == 1 ? "" : fmt::format(" in every {} steps the first", config_.every));
}

}  // namespace flotilla
