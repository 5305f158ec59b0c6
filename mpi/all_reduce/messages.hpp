// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// Messages between ranks that are on their way at the same time.
class Messages {
 public:
  /// Collective: makes its own communicator.
  explicit Messages(const Communicator& group);

  const Communicator& group() const { return group_; }
  void receive(void* to, std::size_t bytes, int from);  ///< Nothing for 0 bytes
  void send(const void* from, std::size_t bytes, int to);
  void wait();                             ///< For all of them
  std::vector<int> missing_ranks() const;  ///< Ranks whose messages are waited for. Safe from another thread.

 private:
  Communicator group_;
  std::vector<MPI_Request> requests_;
  std::vector<int> from_;                    ///< By request: the rank it receives from; −1: it sends
  std::vector<int> finished_;                ///< Output of MPI_Testsome
  std::vector<std::atomic<bool>> expected_;  ///< By rank: waited for now
};

}  // namespace flotilla::mpi
