// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace flotilla::mpi {

/// The range [begin, end) of an array of floats.
struct SliceBounds {
  std::size_t begin = 0;
  std::size_t end = 0;
  friend bool operator==(const SliceBounds&, const SliceBounds&) = default;
};

/// The part of [offset, offset + count) that `rank` of `ranks` sums. The parts are disjoint and complete;
/// their borders are multiples of 16 values, a cache line, so that no line has two writers.
inline SliceBounds slice_of(std::size_t offset, std::size_t count, int rank, int ranks) {
  constexpr std::size_t line = 16;
  const std::size_t first_line = offset / line;
  const std::size_t lines = (offset + count + line - 1) / line - first_line;
  const auto cut = [&](int at) {
    if (at == 0) return offset;
    if (at == ranks) return offset + count;
    const std::size_t share = lines * static_cast<std::size_t>(at) / static_cast<std::size_t>(ranks);
    // With fewer lines than ranks the first line's cut may lie before the data.
    return share == 0 ? offset : (first_line + share) * line;
  };
  return {cut(rank), cut(rank + 1)};
}

/// Cuts an array into equal parts, one for each rank of a group, as NCCL's reduce-scatter needs them. Parts
/// are whole cache lines; the remainder follows the last rank's part and is summed by that rank as well.
class EvenSlices {
 public:
  EvenSlices(std::size_t count, int ranks)
      : count_(count), ranks_(static_cast<std::size_t>(ranks)), part_(count / ranks_ / line * line) {}

  std::size_t part() const { return part_; }  ///< Floats of each rank's part; 0: all is remainder
  SliceBounds rest() const { return {part_ * ranks_, count_}; }
  /// The slice that `rank` sums: its part and, for the last one, the remainder.
  SliceBounds of(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return {at * part_, at + 1 == ranks_ ? count_ : (at + 1) * part_};
  }
  /// No rank adds more floats of any array of up to this count.
  std::size_t most() const { return part_ + line * ranks_; }

 private:
  static constexpr std::size_t line = 16;

  std::size_t count_;
  std::size_t ranks_;
  std::size_t part_;
};

/// The largest count given to one MPI call: MPI 3 counts with int.
inline constexpr std::size_t largest_piece = std::size_t{1} << 30;

/// Floats that make_mpi_all_reduce() gives to one MPI_Allreduce: 16 MiB. Open MPI's algorithms take a scratch
/// buffer of the size of the data in every call, and glibc maps blocks above 32 MiB afresh each time, page by
/// page: 100 MB between two ranks of a host took 35 ms in pieces of 8 MiB (17 at best) instead of 45 (43).
/// Smaller pieces lose on a busy machine, where each of them waits for the scheduler.
inline constexpr std::size_t mpi_all_reduce_piece = (std::size_t{16} << 20) / sizeof(float);

/// Calls f(offset, count) for consecutive pieces of at most `limit` of `total`; not at all if total is 0.
template <class F>
void for_each_piece(std::size_t total, std::size_t limit, F&& f) {
  for (std::size_t offset = 0; offset < total; offset += limit) {
    f(offset, static_cast<int>(std::min(limit, total - offset)));
  }
}

/// Cuts the gathering of arrays of unequal lengths into calls of at most `limit` values of all ranks
/// together, in which each rank has the same most. Calls f(counts, begins) with each rank's count and where
/// its values lie among those of the call; not at all if all arrays are empty.
/// @param limit at least the number of ranks
template <class F>
void for_each_gather(std::span<const std::int64_t> lengths, std::size_t limit, F&& f) {
  const auto most = static_cast<std::int64_t>(limit / lengths.size());
  const std::int64_t longest = *std::ranges::max_element(lengths);
  std::vector<int> counts(lengths.size());
  std::vector<int> begins(lengths.size());
  for (std::int64_t done = 0; done < longest; done += most) {
    for (std::size_t rank = 0; rank < lengths.size(); ++rank)
      counts[rank] = static_cast<int>(std::clamp<std::int64_t>(lengths[rank] - done, 0, most));
    std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0);
    f(counts, begins);
  }
}

}  // namespace flotilla::mpi
