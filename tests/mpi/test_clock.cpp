// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "mpi/core/clock.hpp"

namespace flotilla::mpi {
namespace {

TEST(ClockOffset, VanishesOnOneHost) {
  const auto world = Communicator::world();

  const std::int64_t offset = clock_offset_ns(world);

  // The ranks of a host share one clock, so what is found is the error: half a round trip, here a scheduler's
  // slice at most.
  EXPECT_LT(std::abs(offset), 100'000'000);
  if (world.is_root()) {
    EXPECT_EQ(offset, 0);
  }
}

}  // namespace
}  // namespace flotilla::mpi
