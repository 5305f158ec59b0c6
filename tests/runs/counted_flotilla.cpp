// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "src/run.hpp"
#include "tests/support/allocation_count.hpp"

// The program; each rank leaves in $COUNTED_BYTES.RANK the most bytes that operator new had given out in it.

int main(int argc, char** argv) {
  int code = 0;
  const std::int64_t bytes = flotilla::test::most_bytes_over([&] { code = flotilla::run(argc, argv); });
  const char* const of_open_mpi = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const rank = of_open_mpi != nullptr ? of_open_mpi : std::getenv("PMI_RANK");
  std::ofstream(std::string(std::getenv("COUNTED_BYTES")) + "." + rank) << bytes;
  return code;
}
