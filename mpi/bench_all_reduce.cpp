// SPDX-License-Identifier: Apache-2.0
#include "mpi/bench_all_reduce.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "mpi/collectives.hpp"
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

/// Small integers: every sum is exact in float, whatever the order, up to some thousand ranks.
void fill(std::span<float> data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<float>(i % 1021 + 7 * static_cast<std::size_t>(rank));
}

bool is_sum(std::span<const float> result, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    wrong += result[i] == static_cast<float>(i % 1021 * n + 7 * n * (n - 1) / 2) ? 0 : 1;
  }
  return wrong == 0;
}

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
        in_place_only_(options.in_place_only),
        rounds_(options.rounds),
        pieces_(make_mpi_all_reduce(world)) {
    if (world.split_by_host().size() != world.size()) return;
    storage_.emplace(world, options.max_bytes / sizeof(float));
    shared_ = make_shared_memory_all_reduce(world, *storage_);
    for (int rank = 0; rank < world.size(); ++rank) arrays_.push_back(storage_->of(rank).data());
  }

  void measure(std::size_t bytes, const std::function<void(const AllReduceBenchRow&)>& on_row) {
    const std::size_t count = bytes / sizeof(float);
    std::vector<float> own(count);
    std::vector<float> other(in_place_only_ ? 0 : count);
    std::vector<Contestant> contestants = line_up(own, other);
    // Enough for a median, within some seconds per size.
    const std::size_t enough = std::clamp<std::size_t>((std::size_t{256} << 20) / bytes, 7, 101) | 1;
    take_turns(contestants, rounds_ != 0 ? rounds_ : enough);
    for (Contestant& contestant : contestants) {
      finish(contestant);
      on_row(contestant.row);
    }
  }

 private:
  std::vector<Contestant> line_up(std::span<float> own, std::span<float> other) {
    std::vector<Contestant> all;
    const auto add = [&](const char* algorithm, bool in_place, std::span<float> data, std::span<float> result,
                         std::function<void()> sum) {
      all.push_back(
          {.row = {.algorithm = algorithm, .bytes = own.size_bytes(), .in_place = in_place, .correct = true},
           .data = data,
           .result = result,
           .sum = std::move(sum)});
    };
    add("mpi", true, own, own, [this, own] { mpi_sum(world_, nullptr, own); });
    if (!in_place_only_) {
      add("mpi", false, own, other, [this, own, other] { mpi_sum(world_, own.data(), other); });
    }
    if (own.size() > mpi_all_reduce_piece) {
      add("mpi-pieces", true, own, own, [this, own] { pieces_->all_reduce(own); });
    }
    if (storage_) {
      const std::span<float> data = storage_->mine().first(own.size());
      add("shared-memory", true, data, data, [this, data] { shared_->all_reduce(data); });
      const SliceBounds slice = slice_of(0, data.size(), world_.rank(), world_.size());
      add("memory-limit", true, data, data, [this, slice] { sum_into_all(arrays_, slice.begin, slice.end); });
    }
    return all;
  }

  void take_turns(std::vector<Contestant>& contestants, std::size_t rounds) const {
    // A call that takes about a microsecond is measured in a row of them, as in nccl-tests.
    const int calls = contestants.front().row.bytes <= (std::size_t{64} << 10) ? 20 : 1;
    constexpr std::size_t warm_up = 2;  // page faults
    for (std::size_t round = 0; round < rounds + warm_up; ++round) {
      for (Contestant& contestant : contestants) {
        fill(contestant.data, world_.rank());
        const double first_us = time(contestant, 1);
        contestant.row.correct &= is_sum(contestant.result, world_.size());
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
  bool in_place_only_;
  std::size_t rounds_;
  std::unique_ptr<Collectives> pieces_;
  std::optional<SharedStorage> storage_;
  std::unique_ptr<Collectives> shared_;
  std::vector<float*> arrays_;
};

}  // namespace

void bench_all_reduce(const Communicator& world, const AllReduceBenchOptions& options,
                      const std::function<void(const AllReduceBenchRow&)>& on_row) {
  if (options.min_bytes < sizeof(float) || options.min_bytes > options.max_bytes) {
    throw UserError(cat("bench all-reduce: sizes from ", options.min_bytes, " to ", options.max_bytes,
                        " bytes; the first must be at least ", sizeof(float), " and at most the last"));
  }
  Bench bench(world, options);
  for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 2) {
    bench.measure(bytes, on_row);
  }
}

}  // namespace flotilla::mpi
