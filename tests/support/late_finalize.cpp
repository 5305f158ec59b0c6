// SPDX-License-Identifier: Apache-2.0
// An MPI program that shows whether the launcher's barrier spans nodes, by MPI_Finalize, which waits in one.
//   late_finalize NODE: the ranks on NODE (SLURMD_NODENAME) wait 2 s before MPI_Finalize. Each rank prints
//   for how many milliseconds it was in MPI_Finalize.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const char* node = std::getenv("SLURMD_NODENAME");
  if (argc != 2 || node == nullptr) MPI_Abort(MPI_COMM_WORLD, 2);
  if (std::string_view(node) == argv[1]) std::this_thread::sleep_for(std::chrono::seconds(2));
  const auto began = std::chrono::steady_clock::now();
  MPI_Finalize();
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - began;
  std::printf("%s: %.0f ms in MPI_Finalize\n", node, taken.count());
  return 0;
}
