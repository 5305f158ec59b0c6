// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// Largest part of a rank in a window, bytes: larger than the memory of any machine; keeps the sum over a
/// host's ranks in 64 bits.
constexpr std::size_t largest_window_part = std::size_t{1} << 44;

/// A nameless, empty file in memory that all ranks of a host have open for reading and writing. Making one
/// tests whether these ranks share memory at all: in containers of their own they may not, though MPI sees
/// them on one host.
class SharedFile {
 public:
  explicit SharedFile(const Communicator& host);  ///< Collective over `host`.
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;
  ~SharedFile();

  int descriptor() const { return descriptor_; }  ///< −1: this rank could not open it
  /// Why some rank could not open it, equal on every rank of the host; empty: all have it open.
  const std::string& failure() const { return failure_; }

 private:
  int descriptor_ = -1;
  std::string failure_;
};

/// Collective over `all`. Whether the ranks of each host share memory, and enough of it for the windows that
/// its ranks of `all` are about to make.
/// @param bytes of this rank's part; 0: it makes no window @param remedy what else the user may set
/// @returns empty, or, equal on every rank, which host lacks what, naming /dev/shm and the remedy.
std::string missing_shared_memory(const Communicator& all, std::size_t bytes,
                                  std::string_view remedy = "strategy.all_reduce = \"mpi\"");

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

/// One array of floats per rank of a host, each mapped by all of them, so that ranks read and write each
/// other's arrays without copies. Zeroed and aligned to pages.
class SharedStorage {
 public:
  /// Collective over `host`, whose ranks must share memory. `count` floats, the same on every rank.
  /// @throws UserError if the memory cannot be allocated, naming /dev/shm, the bytes needed and free, and
  /// strategy.all_reduce = "mpi".
  SharedStorage(const Communicator& host, std::size_t count);

  std::size_t count() const { return count_; }
  int ranks() const { return window_.ranks(); }
  int rank() const { return window_.rank(); }
  std::span<float> of(int rank);  ///< That rank's array.
  std::span<float> mine() { return of(rank()); }

 private:
  std::size_t count_;
  SharedWindow window_;
};

}  // namespace flotilla::mpi
