// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <source_location>
#include <span>
#include <vector>

#include "mpi/core/collective_log.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

// Private to mpi/: functions that need mpi.h.

/// @throws LibraryError with MPI's own text unless `code` is MPI_SUCCESS.
void check(int code, const char* call, std::source_location at = std::source_location::current());

/// Tests a request, which lets it progress. @returns whether it has completed; it is null from then on
inline bool completed(MPI_Request& request) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

/// Gives up requests whose memory is about to be freed: receives without a matching message no longer write
/// there. Does not wait.
inline void abandon(std::span<MPI_Request> requests) {
  for (MPI_Request& request : requests) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

/// The MPI type in which values of a wire without scales are sent.
inline MPI_Datatype carrier_of(Wire wire) {
  return wire == Wire::float32 ? MPI_FLOAT : MPI_UINT16_T;
}

struct Communicator::Handle {
  Handle(MPI_Comm of, std::uint64_t name) : comm(of), log(name) {}

  MPI_Comm comm;
  CollectiveLog log;
  int rank = 0;
  int size = 1;
};

/// Gives the sources of mpi/ access to MPI's handle.
struct NativeHandle {
  static MPI_Comm of(const Communicator& communicator) { return communicator.handle_->comm; }
  /// Wraps the communicator that the last call on `by` has created.
  static Communicator made(const Communicator& by, MPI_Comm comm);
  static CollectiveLog& log(const Communicator& communicator) { return communicator.handle_->log; }
};

/// The beginning of `buffer`, which holds `bytes` bytes or more from here on.
inline std::byte* grown(std::vector<std::byte>& buffer, std::size_t bytes) {
  if (buffer.size() < bytes) buffer.resize(bytes);
  return buffer.data();
}

}  // namespace flotilla::mpi
