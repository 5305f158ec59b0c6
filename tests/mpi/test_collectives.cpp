// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/collectives.hpp"

namespace flotilla::mpi {
namespace {

class AllReduce : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::size_t room = 300'000;

  Communicator world_ = Communicator::world();
  SharedStorage storage_{world_, room};
  std::unique_ptr<Collectives> collectives_ =
      GetParam() == "mpi" ? make_mpi_all_reduce(world_) : make_shared_memory_all_reduce(world_, storage_);
};

INSTANTIATE_TEST_SUITE_P(Collectives, AllReduce, testing::Values("mpi", "shared-memory"),
                         [](const auto& test) { return test.param == "mpi" ? "Mpi" : "SharedMemory"; });

/// Integers, so that every sum is exact in float.
float value(std::size_t i, int rank, int call) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(13 * rank + 31 * call)) % 1021);
}

TEST_P(AllReduce, SumsAnyCountAtAnyPlaceExactly) {
  int call = 0;
  for (const std::size_t count :
       {0, 1, 2, 15, 16, 17, 31, 997, 2047, 2048, 2049, 2053, 4096, 10'007, 262'144, 299'993}) {
    for (const std::size_t offset : {0, 1, 5}) {
      const std::span<float> all = storage_.mine();
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = value(i, world_.rank(), call);

      collectives_->all_reduce(all.subspan(offset, count));

      std::size_t wrong = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        float expected = value(i, world_.rank(), call);
        if (i >= offset && i < offset + count) {
          expected = 0;
          for (int rank = 0; rank < world_.size(); ++rank) expected += value(i, rank, call);
        }
        wrong += all[i] == expected ? 0 : 1;
      }
      ASSERT_EQ(wrong, 0u) << "count " << count << ", offset " << offset;
      ++call;
    }
  }
}

TEST_P(AllReduce, GivesEveryRankTheSameBits) {
  for (const std::size_t count : {3, 1000, 50'021}) {
    const std::span<float> data = storage_.mine().first(count);
    for (std::size_t i = 0; i < count; ++i) {
      data[i] = 1.0f / (1.0f + static_cast<float>(i * 3 + static_cast<std::size_t>(world_.rank()) * 7));
    }

    collectives_->all_reduce(data);

    const std::vector<float> all = world_.all_gather(std::span<const float>(data));
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(all[i]), std::bit_cast<std::uint32_t>(all[i % count]));
    }
  }
}

TEST_P(AllReduce, MayBeCalledInARowWithoutABreak) {
  // Fast ranks run ahead into the next call: whatever the order, no call may see another's values.
  const std::span<float> data = storage_.mine();
  for (int call = 0; call < 3000; ++call) {
    const std::size_t count = call % 3 == 0 ? 4000 : 5;
    const auto mine = static_cast<float>(world_.rank() + call % 100);
    std::fill_n(data.begin(), count, mine);

    collectives_->all_reduce(data.first(count));

    const int n = world_.size();
    const auto expected = static_cast<float>(n * (n - 1) / 2 + n * (call % 100));
    ASSERT_EQ(data[0], expected) << "call " << call;
    ASSERT_EQ(data[count - 1], expected) << "call " << call;
  }
}

TEST_P(AllReduce, KnowsItsGroup) {
  EXPECT_EQ(collectives_->name(), GetParam());
  EXPECT_EQ(collectives_->ranks(), world_.size());
  EXPECT_EQ(collectives_->missing_ranks(), std::vector<int>());
  if (world_.size() == 1) {
    EXPECT_EQ(collectives_->sent_bytes(1000), 0u);
  } else {
    EXPECT_GT(collectives_->sent_bytes(1000), 0u);
  }
}

TEST(SharedMemoryAllReduce, AddsInRankOrder) {
  const auto world = Communicator::world();
  SharedStorage storage(world, 5000);
  const auto collectives = make_shared_memory_all_reduce(world, storage);
  for (const std::size_t count : {10, 5000}) {
    const auto mine = [](std::size_t i, int rank) {
      return 1.0f / static_cast<float>(i + 3 + 5 * static_cast<std::size_t>(rank));
    };
    const std::span<float> data = storage.mine().first(count);
    for (std::size_t i = 0; i < count; ++i) data[i] = mine(i, world.rank());

    collectives->all_reduce(data);

    for (std::size_t i = 0; i < count; ++i) {
      float expected = mine(i, 0);
      for (int rank = 1; rank < world.size(); ++rank) expected += mine(i, rank);
      ASSERT_EQ(data[i], expected);
    }
  }
}

TEST(SharedMemoryAllReduce, RefusesDataOutsideTheStorage) {
  const auto world = Communicator::world();
  SharedStorage storage(world, 100);
  const auto collectives = make_shared_memory_all_reduce(world, storage);
  std::vector<float> elsewhere(100);

  EXPECT_THROW(collectives->all_reduce(elsewhere), InternalError);
  EXPECT_THROW(collectives->all_reduce({storage.mine().data() + 1, 100}), InternalError);
}

TEST(SharedMemoryAllReduce, NoticesRanksThatSumDifferentThings) {
  const auto world = Communicator::world();
  if (world.size() == 1) GTEST_SKIP() << "needs two ranks";
  SharedStorage storage(world, 5000);
  const auto collectives = make_shared_memory_all_reduce(world, storage);
  const std::size_t odd_one = world.rank() == 1 ? 1 : 0;

  EXPECT_THROW(collectives->all_reduce(storage.mine().first(100 + odd_one)), InternalError);
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
    try {
      SharedStorage storage(world, count);
      FAIL() << "terabytes of shared memory?";
    } catch (const UserError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("/dev/shm"), std::string::npos) << text;
      EXPECT_NE(text.find("strategy.all_reduce = \"mpi\""), std::string::npos) << text;
    }
  }
  SharedStorage fits(world, 10);  // all ranks have left the one that did not in step
  EXPECT_EQ(fits.mine()[9], 0.0f);
}

}  // namespace
}  // namespace flotilla::mpi
