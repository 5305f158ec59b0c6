// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// One array of floats per rank of a host, each mapped by all of them, so that ranks read and write each
/// other's arrays without copies. Zeroed and aligned to pages.
class SharedStorage {
 public:
  /// Collective over `host`, whose ranks must share memory. `count` floats, the same on every rank.
  /// @throws UserError if the memory cannot be allocated, naming /dev/shm, the bytes needed and free, and
  /// strategy.all_reduce = "mpi".
  SharedStorage(const Communicator& host, std::size_t count);
  SharedStorage(const SharedStorage&) = delete;
  SharedStorage& operator=(const SharedStorage&) = delete;
  ~SharedStorage();  ///< Nothing while an exception is being thrown.

  std::size_t count() const;
  int ranks() const;
  int rank() const;
  std::span<float> of(int rank);  ///< That rank's array.
  std::span<float> mine() { return of(rank()); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flotilla::mpi
