// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace flotilla::mpi {

/// The largest count given to one MPI call: MPI 3 counts with int.
inline constexpr std::size_t largest_piece = std::size_t{1} << 30;

/// Floats that make_mpi_all_reduce() gives to one MPI_Allreduce: 16 MiB. Open MPI's algorithms take a scratch
/// buffer of the size of the data in every call, and glibc maps blocks above 32 MiB anew, page by page: 100
/// MB between two ranks of a host took 35 ms in pieces of 8 MiB (17 at best) instead of 45 (43). Smaller
/// pieces lose on a busy machine, where each of them waits for the scheduler.
inline constexpr std::size_t mpi_all_reduce_piece = (std::size_t{16} << 20) / sizeof(float);

/// Calls f(offset, count) for consecutive pieces of at most `limit` of `total`; not at all if total is 0.
template <class F>
void for_each_piece(std::size_t total, std::size_t limit, F&& f) {
  for (std::size_t offset = 0; offset < total; offset += limit) {
    f(offset, static_cast<int>(std::min(limit, total - offset)));
  }
}

}  // namespace flotilla::mpi
