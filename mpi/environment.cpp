// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>
#include <unistd.h>

#include "mpi/communicator.hpp"

namespace flotilla::mpi {

void abort_job(int exit_code) {
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  _exit(exit_code);
}

}  // namespace flotilla::mpi
