// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/device.hpp"
#include "src/strategy/communicator_exchange.hpp"
#include "tests/support/mpi_calls.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

/// Values whose sum depends on the order in which it is added.
std::vector<double> values_of(int rank, std::size_t count) {
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<double>(i) + rank) * std::exp2(rank % 3 * 20);
  return values;
}

// 64 to 2,048 channels: MPI adds short and long arrays in different ways.
TEST(CommunicatorExchange, AddsTheSameBitsOnAllWorkersAndAgain) {
  const mpi::Communicator world = mpi::Communicator::world();
  const std::unique_ptr<Device> device = make_device({.kind = "cpu", .threads = 1});
  CommunicatorExchange exchange(world.collective_clone(), *device);
  for (const std::size_t count : {1U, 128U, 1024U, 4096U}) {
    exchange.reserve(count);
    std::vector<double> sums = values_of(world.rank(), count);
    std::vector<double> again = sums;
    exchange.all_reduce({sums.data(), count});
    exchange.all_reduce({again.data(), count});

    EXPECT_EQ(sums, again);
    const std::vector<double> all = world.all_gather(std::span<const double>(sums));
    for (std::size_t rank = 0; rank < all.size(); rank += count)
      EXPECT_EQ(std::memcmp(all.data() + rank, sums.data(), count * sizeof(double)), 0) << count << " values";
    for (std::size_t i = 0; i < count; ++i) {
      double exact = 0.0;
      for (int rank = 0; rank < world.size(); ++rank) exact += values_of(rank, count)[i];
      EXPECT_TRUE(test::within(sums[i], exact, 2.0 * world.size() * 0x1p-53 * 0x1p41 * world.size()));
    }
  }
}

// What a worker hands to MPI and gets back does not grow with the number of workers.
TEST(CommunicatorExchange, TakesAsManyBytesOfEachWorkerWhateverTheirNumber) {
  const mpi::Communicator world = mpi::Communicator::world();
  const std::unique_ptr<Device> device = make_device({.kind = "cpu", .threads = 1});
  CommunicatorExchange exchange(world.collective_clone(), *device);
  exchange.reserve(128);
  std::vector<double> sums(128);
  test::mpi_calls() = {};

  exchange.all_reduce({sums.data(), sums.size()});

  EXPECT_EQ(test::mpi_calls(), (test::MpiCalls{.collectives = 1, .reduced = 128}));
}

}  // namespace
}  // namespace flotilla
