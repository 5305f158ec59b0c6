// SPDX-License-Identifier: Apache-2.0
#include "mpi/bench_all_reduce.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/trace.hpp"
#include "mpi/bench_data.hpp"
#include "mpi/collectives.hpp"
#include "mpi/communication_lanes.hpp"
#include "mpi/groups.hpp"
#include "mpi/native.hpp"
#include "mpi/pieces.hpp"
#include "mpi/shared_storage.hpp"
#include "mpi/slices.hpp"
#include "mpi/sum_arrays.hpp"

namespace flotilla::mpi {

namespace {

/// One algorithm that takes part in the turns at one size.
struct Contestant {
  AllReduceBenchRow row;
  std::span<float> data;    ///< Filled before a call…
  std::span<float> result;  ///< …checked after it.
  std::function<void()> sum;
  std::vector<double> times_us{};
};

/// MPI's own all-reduce, as any program would call it.
void mpi_sum(const Communicator& world, const float* from, std::span<float> to) {
  for_each_piece(to.size(), largest_piece, [&](std::size_t offset, int count) {
    const void* source = from == nullptr ? MPI_IN_PLACE : static_cast<const void*>(from + offset);
    check(MPI_Allreduce(source, to.data() + offset, count, MPI_FLOAT, MPI_SUM, NativeHandle::of(world)),
          "MPI_Allreduce");
  });
}

/// The same algorithm on several communicators, each with a thread.
class Lanes {
 public:
  Lanes(int count, const std::function<std::unique_ptr<Collectives>()>& make) {
    std::vector<Collectives*> lanes;
    for (int lane = 0; lane < count; ++lane) lanes.push_back(owners_.emplace_back(make()).get());
    lanes_ = std::make_unique<CommunicationLanes>(lanes, lanes.size(), [] { abort_job(exit_library_error); });
  }

  void sum(std::span<float> data) {
    const int count = static_cast<int>(owners_.size());
    for (int lane = 0; lane < count; ++lane) {
      const SliceBounds part = slice_of(0, data.size(), lane, count);
      lanes_->start(device_span(data.subspan(part.begin, part.end - part.begin)));
    }
    lanes_->finish();
  }

 private:
  std::vector<std::unique_ptr<Collectives>> owners_;
  std::unique_ptr<CommunicationLanes> lanes_;
};

class Bench {
 public:
  Bench(const Communicator& world, const AllReduceBenchOptions& options)
      : world_(world), options_(options), pieces_(make_mpi_all_reduce(world)) {
    const std::vector<Place> places = find_topology(world);
    const std::vector<int> groups = cut_groups(places, options.ranks_per_group);
    const bool one_host = hosts(places) == 1;
    const bool grouped = *std::ranges::max_element(groups) > 0;
    if (one_host || grouped) storage_.emplace(world.split_by_host(), options.max_bytes / sizeof(float));
    if (one_host) {
      for (int rank = 0; rank < world.size(); ++rank) arrays_.push_back(storage_->of(rank).data());
      add("shared-memory", Wire::float32,
          [this] { return make_shared_memory_all_reduce(world_, *storage_); });
    }
    if (grouped) {
      const auto group =
          std::make_shared<Communicator>(world.split(groups[static_cast<std::size_t>(world.rank())]));
      SharedStorage* const inside = groups_stay_on_hosts(places, groups) ? &*storage_ : nullptr;
      for (const Wire wire : {Wire::float32, Wire::float16, Wire::bfloat16})
        add("hierarchical", wire, [this, group, inside, wire] {
          return make_hierarchical_all_reduce(world_, *group, inside, wire);
        });
    }
    for (const Wire wire : {Wire::float16, Wire::bfloat16})
      add("mpi", wire, [this, wire] { return make_mpi_all_reduce(world_, wire); });
    if (options.communicators > 1)
      add_lanes("mpi", Wire::float32, [this] { return make_mpi_all_reduce(world_); });
  }

  void measure(std::size_t bytes, const std::function<void(const AllReduceBenchRow&)>& on_row) {
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> own(count);
    std::vector<float> other(options_.in_place_only ? 0 : count);
    std::vector<Contestant> contestants = line_up(own, other);
    // Enough for a median, within some seconds per size.
    const std::size_t enough = std::clamp<std::size_t>((std::size_t{256} << 20) / bytes, 7, 101) | 1;
    take_turns(contestants, options_.rounds != 0 ? options_.rounds : enough);
    for (Contestant& contestant : contestants) {
      finish(contestant);
      on_row(contestant.row);
    }
  }

 private:
  using Maker = std::function<std::unique_ptr<Collectives>()>;

  /// One of ours: alone or on several communicators.
  struct Entry {
    const char* algorithm;
    Wire wire;
    int communicators;
    std::function<void(std::span<float>)> sum;
  };

  void add(const char* algorithm, Wire wire, const Maker& make) {
    const std::shared_ptr<Collectives> collectives = make();
    entries_.push_back({algorithm, wire, 1, [collectives](std::span<float> data) {
                          all_reduce_now(*collectives, device_span(data));
                        }});
    if (options_.communicators > 1) add_lanes(algorithm, wire, make);
  }

  void add_lanes(const char* algorithm, Wire wire, const Maker& make) {
    const auto lanes = std::make_shared<Lanes>(options_.communicators, make);
    entries_.push_back(
        {algorithm, wire, options_.communicators, [lanes](std::span<float> data) { lanes->sum(data); }});
  }

  std::vector<Contestant> line_up(std::span<float> own, std::span<float> other) {
    std::vector<Contestant> all;
    const auto enter = [&](AllReduceBenchRow row, std::span<float> data, std::span<float> result,
                           std::function<void()> sum) {
      row.bytes = own.size_bytes();
      row.correct = true;
      all.push_back({.row = std::move(row), .data = data, .result = result, .sum = std::move(sum)});
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
      const bool flat = std::string_view(entry.algorithm) == "mpi";
      const std::span<float> data = flat ? own : storage_->mine().first(own.size());
      enter({.algorithm = entry.algorithm, .wire = entry.wire, .communicators = entry.communicators}, data,
            data, [&entry, data] { entry.sum(data); });
    }
    if (!arrays_.empty()) {
      const std::span<float> data = storage_->mine().first(own.size());
      const SliceBounds slice = slice_of(0, data.size(), world_.rank(), world_.size());
      enter({.algorithm = "memory-limit"}, data, data,
            [this, slice] { sum_into_all(arrays_, slice.begin, slice.end); });
    }
    return all;
  }

  void take_turns(std::vector<Contestant>& contestants, std::size_t rounds) const {
    // A call that takes about a microsecond is measured in a row of them, as in nccl-tests.
    const int calls = contestants.front().row.bytes <= (std::size_t{64} << 10) ? 20 : 1;
    constexpr std::size_t warm_up = 2;  // page faults
    for (std::size_t round = 0; round < rounds + warm_up; ++round) {
      for (Contestant& contestant : contestants) {
        fill_for_exact_sum(contestant.data, contestant.row.wire, world_.rank(), world_.size());
        const double first_us = time(contestant, 1);
        contestant.row.correct &= is_exact_sum(contestant.result, contestant.row.wire, world_.size());
        const double time_us = calls == 1 ? first_us : time_row(contestant, calls);
        if (round >= warm_up) contestant.times_us.push_back(time_us);
      }
    }
  }

  double time_row(Contestant& contestant, int calls) const {
    std::ranges::fill(contestant.data, 0.0f);  // sums of sums would leave the range of float
    return time(contestant, calls);
  }

  /// This rank's time of one of `calls` calls. Begins together; ends when all have ended.
  double time(const Contestant& contestant, int calls) const {
    world_.barrier();
    const std::int64_t begin = trace::now_ns();
    for (int call = 0; call < calls; ++call) contestant.sum();
    const std::int64_t end = trace::now_ns();
    world_.barrier();
    return static_cast<double>(end - begin) / 1e3 / calls;
  }

  /// Collective. What the ranks found, put together.
  void finish(Contestant& contestant) const {
    std::vector<double>& times = contestant.times_us;
    world_.all_reduce(std::span(times), Op::max);
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    int correct = contestant.row.correct ? 1 : 0;
    world_.all_reduce(std::span(&correct, 1), Op::min);
    AllReduceBenchRow& row = contestant.row;
    const double n = world_.size();
    row.correct = correct == 1;
    row.time_us = times[times.size() / 2];
    row.algbw_gb_s = static_cast<double>(row.bytes) / row.time_us / 1e3;
    row.busbw_gb_s = row.algbw_gb_s * 2 * (n - 1) / n;
  }

  const Communicator& world_;
  AllReduceBenchOptions options_;
  std::unique_ptr<Collectives> pieces_;
  std::optional<SharedStorage> storage_;  ///< Of the host's ranks
  std::vector<float*> arrays_;            ///< All ranks', if they share a host
  std::vector<Entry> entries_;
};

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

}  // namespace flotilla::mpi
