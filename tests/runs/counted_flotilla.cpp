// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/trace.hpp"
#include "src/run.hpp"
#include "tests/support/allocation_count.hpp"

// The program. Each rank leaves in $COUNTED_BYTES.RANK the least bytes that operator new had given out in it
// at the end of a backward pass, in a server of an update, in the second half of the run. What is held for
// some moments only, on a busy machine for longer ones, is not in the least.

namespace {

class HeldAfterSteps : public flotilla::trace::Sink {
 public:
  void span(const char* name, std::int64_t, std::int64_t) override {
    if (std::string_view(name) == "backward" || std::string_view(name) == "update")
      held_.push_back(flotilla::test::bytes_held() - own_bytes());
  }
  std::int64_t least() const {
    return held_.empty() ? 0 : *std::min_element(held_.begin() + std::ssize(held_) / 2, held_.end());
  }

 private:
  std::int64_t own_bytes() const {
    return static_cast<std::int64_t>(held_.capacity() * sizeof(std::int64_t));
  }

  std::vector<std::int64_t> held_;
};

}  // namespace

int main(int argc, char** argv) {
  HeldAfterSteps held;
  flotilla::trace::record_this_thread(&held);
  const int code = flotilla::run(argc, argv);
  const char* const of_open_mpi = std::getenv("OMPI_COMM_WORLD_RANK");
  const char* const rank = of_open_mpi != nullptr ? of_open_mpi : std::getenv("PMI_RANK");
  std::ofstream(std::string(std::getenv("COUNTED_BYTES")) + "." + rank) << held.least();
  return code;
}
