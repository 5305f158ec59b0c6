// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/bench_turns.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

namespace {

/// This rank's time of one of `calls` calls. Begins together; ends when all have ended.
double time_us(const Communicator& world, const Candidate& candidate, int calls) {
  world.barrier();
  const std::int64_t begin = trace::now_ns();
  for (int call = 0; call < calls; ++call) candidate.sum();
  candidate.wait();
  const std::int64_t end = trace::now_ns();
  world.barrier();
  return static_cast<double>(end - begin) / 1e3 / calls;
}

/// Collective. Combines the times and checks of the ranks into the candidate's row.
void finish(const Communicator& world, Candidate& candidate) {
  std::vector<double>& times = candidate.times_us;
  world.all_reduce(std::span(times), Op::max);
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  int correct = candidate.row.correct ? 1 : 0;
  world.all_reduce(std::span(&correct, 1), Op::min);
  AllReduceBenchRow& row = candidate.row;
  const double n = world.size();
  row.correct = correct == 1;
  row.time_us = times[times.size() / 2];
  row.algbw_gb_s = static_cast<double>(row.bytes) / row.time_us / 1e3;
  row.busbw_gb_s = row.algbw_gb_s * 2 * (n - 1) / n;
}

}  // namespace

BenchLanes::BenchLanes(std::span<Collectives* const> lanes)
    : lanes_(lanes, lanes.size(), [] { abort_job(exit_library_error); }) {}

void BenchLanes::sum(DeviceSpan<float> data) {
  const int count = static_cast<int>(lanes_.size());
  for (int lane = 0; lane < count; ++lane) {
    const SliceBounds part = slice_of(0, data.size(), lane, count);
    lanes_.start(data.subspan(part.begin, part.end - part.begin));
  }
  lanes_.finish();
}

void take_turns(const Communicator& world, std::span<Candidate> candidates, std::size_t rounds) {
  const std::size_t bytes = candidates.front().row.bytes;
  // Enough for a median, within some seconds per size.
  if (rounds == 0) rounds = std::clamp<std::size_t>((std::size_t{256} << 20) / bytes, 7, 101) | 1;
  // A call that takes about a microsecond is measured in a row of them, as in nccl-tests.
  const int calls = bytes <= (std::size_t{64} << 10) ? 20 : 1;
  constexpr std::size_t warm_up = 2;  // page faults
  for (Candidate& candidate : candidates) candidate.row.correct = true;
  for (std::size_t round = 0; round < rounds + warm_up; ++round) {
    for (Candidate& candidate : candidates) {
      candidate.fill();
      double one_us = time_us(world, candidate, 1);
      candidate.row.correct &= candidate.is_exact();
      if (calls > 1) {
        candidate.clear();  // sums of sums would leave the range of float
        one_us = time_us(world, candidate, calls);
      }
      if (round >= warm_up) candidate.times_us.push_back(one_us);
    }
  }
  for (Candidate& candidate : candidates) finish(world, candidate);
}

}  // namespace flotilla::mpi
