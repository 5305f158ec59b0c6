// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>
#include <unistd.h>

#include <cstdio>

// An MPI program that does nothing: each rank says which process it is, and waits to be killed. Shows what
// the MPI library opens by itself.
int main(int count, char** arguments) {
  int granted = 0;
  MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &granted);
  MPI_Barrier(MPI_COMM_WORLD);
  std::printf("process %d\n", static_cast<int>(getpid()));
  std::fflush(stdout);
  for (;;) pause();
}
