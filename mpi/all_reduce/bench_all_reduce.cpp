// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/bench_all_reduce.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/trace.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/sum_arrays.hpp"
#include "mpi/core/native.hpp"
#include "mpi/core/shared_memory.hpp"
#include "mpi/core/slices.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

namespace {

/// MPI's own all-reduce, as any program would call it.
void mpi_sum(const Communicator& world, const float* from, std::span<float> to) {
  for_each_piece(to.size(), largest_piece, [&](std::size_t offset, int count) {
    const void* source = from == nullptr ? MPI_IN_PLACE : static_cast<const void*>(from + offset);
    check(MPI_Allreduce(source, to.data() + offset, count, MPI_FLOAT, MPI_SUM, NativeHandle::of(world)),
          "MPI_Allreduce");
  });
}

class Bench {
 public:
  Bench(const Communicator& world, const AllReduceBenchOptions& options)
      : world_(world),
        host_(world.split_by_host()),
        options_(options),
        site_(find_site(find_topology(world), options.ranks_per_group)),
        pieces_(make_mpi_all_reduce(world)) {
    site_.no_nccl = "needs arrays in the memory of GPUs";
    const auto kinds = possible_all_reduces(site_);
    if (std::ranges::any_of(kinds,
                            [this](const AllReduceKind* kind) { return needs_window(*kind, site_); })) {
      const std::string missing = missing_shared_memory(world, options.max_bytes, "--max to less");
      if (!missing.empty()) throw UserError(missing);
      storage_.emplace(host_, options.max_bytes / sizeof(float));
      for (int rank = 0; site_.hosts == 1 && rank < world.size(); ++rank)
        arrays_.push_back(storage_->of(rank).data());
    }
    for (const AllReduceKind* const kind : kinds)
      for (const Wire wire : {Wire::float32, Wire::float16, Wire::bfloat16})
        if (kind->carries(wire)) add(*kind, wire);
  }

  void measure(std::size_t bytes, const std::function<void(const AllReduceBenchRow&)>& on_row) {
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> own(count);
    std::vector<float> other(options_.in_place_only ? 0 : count);
    std::vector<Candidate> candidates = line_up(own, other);
    take_turns(world_, candidates, options_.rounds);
    for (const Candidate& candidate : candidates) on_row(candidate.row);
  }

 private:
  /// One of ours: alone or on several communicators.
  struct Entry {
    const AllReduceKind* kind;
    Wire wire;
    int communicators;
    std::unique_ptr<BenchLanes> lanes;
  };

  void add(const AllReduceKind& kind, Wire wire) {
    for (const int communicators : std::set{1, options_.communicators}) {
      // MPI_Allreduce of float32 is measured as any program would call it.
      const bool measured = communicators == 1 && kind.word == "mpi" && wire == Wire::float32;
      if (measured || (communicators > 1 && !kind.several_communicators)) continue;
      std::vector<std::unique_ptr<Collectives>> lanes(static_cast<std::size_t>(communicators));
      for (auto& lane : lanes)
        lane = kind.make({.site = site_,
                          .world = world_,
                          .host = host_,
                          .wire = wire,
                          .window = needs_window(kind, site_) ? &*storage_ : nullptr});
      entries_.push_back({&kind, wire, communicators, std::make_unique<BenchLanes>(std::move(lanes))});
    }
  }

  std::vector<Candidate> line_up(std::span<float> own, std::span<float> other) {
    std::vector<Candidate> all;
    const auto enter = [&](AllReduceBenchRow row, std::span<float> data, std::span<float> result,
                           std::function<void()> sum) {
      row.bytes = own.size_bytes();
      const Wire wire = row.wire;
      const int rank = world_.rank();
      const int ranks = world_.size();
      all.push_back({.row = std::move(row),
                     .fill = [=] { fill_for_exact_sum(data, wire, rank, ranks); },
                     .is_exact = [=] { return is_exact_sum(result, wire, ranks); },
                     .clear = [=] { std::ranges::fill(data, 0.0F); },
                     .sum = std::move(sum)});
    };
    enter({.algorithm = "mpi"}, own, own, [this, own] { mpi_sum(world_, nullptr, own); });
    if (!options_.in_place_only) {
      enter({.algorithm = "mpi", .in_place = false}, own, other,
            [this, own, other] { mpi_sum(world_, own.data(), other); });
    }
    if (own.size() > mpi_all_reduce_piece)
      enter({.algorithm = "mpi-pieces"}, own, own,
            [this, own] { all_reduce_now(*pieces_, device_span(own)); });
    for (const Entry& entry : entries_) {
      const std::span<float> data =
          needs_window(*entry.kind, site_) ? storage_->mine().first(own.size()) : own;
      enter({.algorithm = std::string(entry.kind->word),
             .wire = entry.wire,
             .communicators = entry.communicators},
            data, data, [&entry, data] { entry.lanes->sum(device_span(data)); });
    }
    if (!arrays_.empty()) {
      const std::span<float> data = storage_->mine().first(own.size());
      const SliceBounds slice = slice_of(0, data.size(), world_.rank(), world_.size());
      enter({.algorithm = "memory-limit"}, data, data,
            [this, slice] { sum_into_all(arrays_, slice.begin, slice.end); });
    }
    return all;
  }

  const Communicator& world_;
  Communicator host_;
  AllReduceBenchOptions options_;
  AllReduceSite site_;
  std::unique_ptr<Collectives> pieces_;
  std::optional<SharedStorage> storage_;  ///< Storage shared by the host's ranks
  std::vector<float*> arrays_;            ///< All ranks', if they share a host
  std::vector<Entry> entries_;
};

/// Values are below this: their sum does not exceed what the wire counts to without gaps.
std::size_t value_limit(Wire wire, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  switch (wire) {
    case Wire::float16: return 2048 / n + 1;
    case Wire::bfloat16: return 256 / n + 1;
    default: return 1021;
  }
}

/// The values of `rank`, which repeat after `limit` of them.
std::vector<float> pattern(std::size_t limit, int rank) {
  std::vector<float> values(limit);
  for (std::size_t i = 0; i < limit; ++i)
    values[i] = static_cast<float>((i + 7 * static_cast<std::size_t>(rank)) % limit);
  return values;
}

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

void bench_all_reduce(const Communicator& world, const AllReduceBenchOptions& options,
                      const std::function<void(const AllReduceBenchRow&)>& on_row) {
  if (options.min_bytes < sizeof(float) || options.min_bytes > options.max_bytes) {
    throw UserError(cat("bench all-reduce: sizes from ", options.min_bytes, " to ", options.max_bytes,
                        " bytes; the first must be at least ", sizeof(float), " and at most the last"));
  }
  if (options.communicators < 1)
    throw UserError(cat("bench all-reduce: ", options.communicators, " communicators; give at least 1"));
  Bench bench(world, options);
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 2) {
    bench.measure(bytes, on_row);
  }
}

void fill_for_exact_sum(std::span<float> data, Wire wire, int rank, int ranks) {
  const std::vector<float> values = pattern(value_limit(wire, ranks), rank);
  for (std::size_t at = 0; at < data.size(); at += values.size()) {
    const std::size_t count = std::min(values.size(), data.size() - at);
    std::copy_n(values.begin(), count, data.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

bool is_exact_sum(std::span<const float> result, Wire wire, int ranks) {
  const std::size_t limit = value_limit(wire, ranks);
  std::vector<float> sums(limit);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = pattern(limit, rank);
    for (std::size_t i = 0; i < limit; ++i) sums[i] += values[i];
  }
  for (std::size_t at = 0; at < result.size(); at += limit) {
    const auto part = result.subspan(at, std::min(limit, result.size() - at));
    if (!std::equal(part.begin(), part.end(), sums.begin())) return false;
  }
  return true;
}

BenchLanes::BenchLanes(std::vector<std::unique_ptr<Collectives>> lanes) : lanes_(std::move(lanes)) {
  if (lanes_.size() == 1) return;
  std::vector<Collectives*> all;
  for (const auto& lane : lanes_) all.push_back(lane.get());
  together_.emplace(all, all.size(), [] { abort_job(exit_library_error); });
}

void BenchLanes::sum(DeviceSpan<float> data) {
  if (!together_) return all_reduce_now(*lanes_.front(), data);
  const int count = static_cast<int>(lanes_.size());
  for (int lane = 0; lane < count; ++lane) {
    const SliceBounds part = slice_of(0, data.size(), lane, count);
    together_->start(data.subspan(part.begin, part.end - part.begin));
  }
  together_->finish();
}

void BenchLanes::wait() {
  for (const auto& lane : lanes_) lane->wait();
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
