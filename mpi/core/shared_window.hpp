// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// Memory that all ranks of a host map: one part per rank, each allocated, zeroed and so first touched by its
/// rank, and aligned to pages. A file of our own, because Open MPI 4.1 crashes in MPI_Win_allocate_shared
/// where ranks see different /dev/shm, or have equal process ids in containers of their own.
class SharedWindow {
 public:
  /// Collective over `host`. @param bytes of this rank's part @param remedy what else the user may set
  /// @throws UserError on all ranks of `host`, and on no other host's, if it has too little memory: where
  /// other hosts would wait for these ranks, ask missing_shared_memory() first.
  SharedWindow(const Communicator& host, std::size_t bytes,
               std::string_view remedy = "strategy.all_reduce = \"mpi\"");
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;
  ~SharedWindow();  ///< Nothing while an exception is being thrown.

  std::span<std::byte> of(int rank) const { return parts_[static_cast<std::size_t>(rank)]; }
  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(parts_.size()); }

 private:
  int rank_;
  std::vector<std::span<std::byte>> parts_;
  std::span<std::byte> mapped_;
};

}  // namespace flotilla::mpi
