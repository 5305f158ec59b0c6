// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

#include "mpi/communicator.hpp"

namespace flotilla::mpi {

/// Memory that all ranks of a host map: one part per rank, each zeroed (and so first touched) by its rank and
/// aligned to 128 bytes by hand, because MPI_Win_allocate_shared gives 4 or 8 only.
class SharedWindow {
 public:
  /// Collective over `host`. `bytes` per rank, the same on every rank. @throws UserError as SharedStorage.
  SharedWindow(const Communicator& host, std::size_t bytes);
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;
  ~SharedWindow();  ///< Collective; nothing while an exception is being thrown.

  std::span<std::byte> of(int rank) const { return {parts_[static_cast<std::size_t>(rank)], bytes_}; }
  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(parts_.size()); }

 private:
  std::size_t bytes_;
  int rank_;
  std::vector<std::byte*> parts_;
  MPI_Win window_ = MPI_WIN_NULL;
};

}  // namespace flotilla::mpi
