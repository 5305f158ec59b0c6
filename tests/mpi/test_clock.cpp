// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/trace.hpp"
#include "mpi/core/clock.hpp"

namespace flotilla::mpi {
namespace {

TEST(ClockOffset, VanishesOnOneHost) {
  const auto world = Communicator::world();

  const std::int64_t begin_ns = trace::now_ns();
  const std::int64_t offset = clock_offset_ns(world);
  const std::int64_t took_ns = trace::now_ns() - begin_ns;

  // The ranks of a host share one clock, so what is found is the error: at most half of the shortest of 50
  // round trips.
  const std::int64_t error_ns = std::abs(offset);
  EXPECT_LE(error_ns, took_ns / 100 + 1);
  if (world.is_root()) {
    EXPECT_EQ(offset, 0);
  }
}

}  // namespace
}  // namespace flotilla::mpi
