// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "tests/mpi/all_reduces.hpp"
#include "tests/support/messages.hpp"

namespace flotilla::mpi {
namespace {

/// What rank `rank` adds at `i`: sums of these are rounded.
float mine(std::size_t i, int rank) {
  return 1.0f / static_cast<float>(i + 3 + 5 * static_cast<std::size_t>(rank));
}

TEST(SharedMemoryAllReduce, RefusesDataOutsideTheStorage) {
  const auto world = Communicator::world();
  SharedStorage storage(world, 100);
  const auto collectives = make_shared_memory_all_reduce(world, storage);
  std::vector<float> elsewhere(100);

  EXPECT_THROW(collectives->all_reduce(device_span(elsewhere)), InternalError);
  EXPECT_THROW(collectives->all_reduce({storage.mine().data() + 1, 100}), InternalError);
}

TEST(SharedMemoryAllReduce, NoticesRanksThatSumDifferentThings) {
  const auto world = Communicator::world();
  if (world.size() == 1) GTEST_SKIP() << "needs two ranks";
  SharedStorage storage(world, 5000);
  const auto collectives = make_shared_memory_all_reduce(world, storage);
  const std::size_t odd_one = world.rank() == 1 ? 1 : 0;

  EXPECT_THROW(collectives->all_reduce(device_span(storage.mine().first(100 + odd_one))), InternalError);
}

TEST(HierarchicalAllReduce, AddsInsideTheGroupsInRankOrderFirst) {
  const auto world = Communicator::world();
  if (world.size() != 4) GTEST_SKIP() << "needs four ranks";
  SharedStorage storage(world, 5000);
  for (const bool in_memory : {true, false}) {
    const auto collectives = make(
        {.algorithm = "hierarchical", .ranks_per_group = 2, .inside_in_memory = in_memory}, world, storage);
    const std::span<float> data = storage.mine();
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = mine(i, world.rank());

    collectives->all_reduce(device_span(data));

    for (std::size_t i = 0; i < data.size(); ++i)
      ASSERT_EQ(data[i], (mine(i, 0) + mine(i, 1)) + (mine(i, 2) + mine(i, 3)));
  }
}

TEST(EncodedAllReduce, AddsRoundedValuesInRankOrderWhereverTheArrayIsCut) {
  const auto world = Communicator::world();
  const auto rounded = [](float x, Wire wire) {
    std::array<std::byte, 2> bytes{};
    encode(wire, {&x, 1}, bytes.data());
    decode(wire, bytes.data(), {&x, 1});
    return x;
  };
  for (const Wire wire : {Wire::float16, Wire::bfloat16}) {
    const auto collectives = make_mpi_all_reduce(world, wire);
    for (const std::size_t count : {10, 5000}) {
      std::vector<float> data(count);
      for (std::size_t i = 0; i < count; ++i) data[i] = mine(i, world.rank());

      collectives->all_reduce(device_span(data));

      for (std::size_t i = 0; i < count && world.size() > 1; ++i) {
        float expected = rounded(mine(i, 0), wire);
        for (int rank = 1; rank < world.size(); ++rank) expected += rounded(mine(i, rank), wire);
        ASSERT_EQ(data[i], rounded(expected, wire));
      }
    }
  }
}

TEST(SharedStorage, IsZeroedAlignedAndSeenByAll) {
  const auto world = Communicator::world();
  SharedStorage storage(world, 1001);
  for (const float x : storage.mine()) ASSERT_EQ(x, 0.0f);
  world.barrier();

  storage.mine()[1000] = static_cast<float>(world.rank() + 1);
  world.barrier();

  EXPECT_EQ(storage.count(), 1001u);
  EXPECT_EQ(storage.ranks(), world.size());
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(storage.of(rank)[1000], static_cast<float>(rank + 1));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(storage.of(rank).data()) % 64, 0u);
  }
  EXPECT_THROW(storage.of(world.size()), InternalError);
}

TEST(SharedStorage, TellsEveryRankWhereRoomIsMissing) {
  const auto world = Communicator::world();

  for (const std::size_t count : {std::size_t{1} << 41, std::size_t{1} << 63}) {
    EXPECT_TRUE(test::mentions(test::error_of([&] { SharedStorage storage(world, count); }),
                               {"/dev/shm", "strategy.all_reduce = \"mpi\""}));
  }
  SharedStorage fits(world, 10);  // all ranks have left the one that did not in step
  EXPECT_EQ(fits.mine()[9], 0.0f);
}

}  // namespace
}  // namespace flotilla::mpi
