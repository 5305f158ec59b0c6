// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/choose_all_reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <sstream>

#include "kernels/error.hpp"
#include "kernels/median.hpp"
#include "kernels/trace.hpp"

namespace flotilla::mpi {

namespace {

constexpr double budget_us = 1e6;
constexpr double clearly_less = 0.9;

struct Measured {
  AllReduceChoice::Size size;
  DeviceSpan<float> bucket;  ///< One of them
};

std::vector<Measured> distinct_sizes(std::span<const DeviceSpan<float>> buckets) {
  std::vector<Measured> all;
  for (const DeviceSpan<float> bucket : buckets) {
    const auto known = std::ranges::find(all, bucket.size(), [](const Measured& m) { return m.size.floats; });
    if (known == all.end()) {
      all.push_back({{bucket.size(), 1}, bucket});
    } else {
      ++known->size.buckets;
    }
  }
  return all;
}

double time_us(const Communicator& world, Collectives& candidate, DeviceSpan<float> bucket) {
  // A call that takes a microsecond is measured in a row of them.
  const int calls = bucket.size() * sizeof(float) <= (std::size_t{64} << 10) ? 20 : 1;
  world.barrier();
  const std::int64_t begin = trace::now_ns();
  for (int call = 0; call < calls; ++call) all_reduce_now(candidate, bucket);
  candidate.wait();
  return static_cast<double>(trace::now_ns() - begin) / 1e3 / calls;
}

/// One turn of every candidate at every size: candidate · sizes + size.
std::vector<double> take_turn(const Communicator& world, std::span<const AllReduceCandidate> candidates,
                              const std::vector<Measured>& sizes) {
  std::vector<double> times;
  for (const AllReduceCandidate& candidate : candidates)
    for (const Measured& measured : sizes) times.push_back(time_us(world, candidate.sums, measured.bucket));
  world.all_reduce(std::span(times), Op::max);
  return times;
}

std::size_t rounds_within_budget(const std::vector<double>& first_turn) {
  double turn_us = 1;
  for (const double time : first_turn) turn_us += time;
  return static_cast<std::size_t>(std::clamp(budget_us / turn_us, 3.0, 15.0)) | 1U;
}

std::string mebibytes(std::size_t floats) {
  std::ostringstream text;
  text << std::setprecision(3) << static_cast<double>(floats) * sizeof(float) / (1 << 20) << " MiB";
  return text.str();
}

std::string milliseconds(double us) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << us / 1e3 << " ms";
  return text.str();
}

}  // namespace

std::vector<std::string> AllReduceChoice::table() const {
  std::vector<std::string> lines;
  for (std::size_t candidate = 0; candidate < names.size(); ++candidate) {
    std::ostringstream line;
    line << std::left << std::setw(14) << names[candidate] << std::right << std::setw(12)
         << milliseconds(step_us[candidate]) << " a step:";
    for (std::size_t size = 0; size < sizes.size(); ++size)
      line << (size == 0 ? " " : ", ") << sizes[size].buckets << " × " << mebibytes(sizes[size].floats)
           << " in " << milliseconds(bucket_us[candidate][size]);
    if (candidate == winner) line << " (chosen)";
    lines.push_back(line.str());
  }
  return lines;
}

std::size_t clearly_fastest(std::span<const double> step_us) {
  std::size_t winner = 0;
  for (std::size_t candidate = 1; candidate < step_us.size(); ++candidate)
    if (step_us[candidate] < clearly_less * step_us[winner]) winner = candidate;
  return winner;
}

AllReduceChoice choose_all_reduce(const Communicator& world, std::span<const AllReduceCandidate> candidates,
                                  std::span<const DeviceSpan<float>> buckets) {
  require(!candidates.empty() && !buckets.empty(), "a choice among ", candidates.size(), " all-reduces for ",
          buckets.size(), " buckets");
  const std::vector<Measured> measured = distinct_sizes(buckets);
  // The first turn is not counted: it touches pages and opens connections for the first time.
  const std::size_t rounds = rounds_within_budget(take_turn(world, candidates, measured));
  std::vector<std::vector<double>> turns;
  while (turns.size() < rounds) turns.push_back(take_turn(world, candidates, measured));

  AllReduceChoice choice;
  for (const Measured& one : measured) choice.sizes.push_back(one.size);
  for (std::size_t candidate = 0; candidate < candidates.size(); ++candidate) {
    choice.names.emplace_back(candidates[candidate].word);
    std::vector<double>& bucket_us = choice.bucket_us.emplace_back();
    double& step_us = choice.step_us.emplace_back(0);
    for (std::size_t size = 0; size < measured.size(); ++size) {
      std::vector<double> times;
      for (const auto& turn : turns) times.push_back(turn[candidate * measured.size() + size]);
      bucket_us.push_back(median(std::move(times)));
      step_us += bucket_us.back() * static_cast<double>(measured[size].size.buckets);
    }
  }
  // Every rank has the same numbers, bit by bit, and so finds the same.
  choice.winner = clearly_fastest(choice.step_us);
  return choice;
}

}  // namespace flotilla::mpi
