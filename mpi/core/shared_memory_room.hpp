// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

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

}  // namespace flotilla::mpi
