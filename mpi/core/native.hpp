// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <source_location>

#include "mpi/core/communicator.hpp"
#include "mpi/core/wire.hpp"

// Private to mpi/: what needs the vendor's header.
namespace flotilla::mpi {

/// @throws LibraryError with MPI's own text unless `code` is MPI_SUCCESS.
void check(int code, const char* call, std::source_location at = std::source_location::current());

/// Whether it has ended, once it was given time to go on. It is null from then on.
inline bool completed(MPI_Request& request) {
  int done = 0;
  check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

/// What carries values of a wire: their bytes, in units that an int counts.
inline MPI_Datatype carrier_of(Wire wire) {
  return wire == Wire::float32 ? MPI_FLOAT : MPI_UINT16_T;
}

struct Communicator::Handle {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
};

/// Lets the sources of mpi/ reach MPI's handle.
struct NativeHandle {
  static MPI_Comm of(const Communicator& communicator) { return communicator.handle_->comm; }
};

}  // namespace flotilla::mpi
