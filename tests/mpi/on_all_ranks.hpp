// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// A test that all ranks do together.
class OnAllRanks : public testing::Test {
 protected:
  const Communicator world = Communicator::world();
};

}  // namespace flotilla::mpi
