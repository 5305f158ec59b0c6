// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/host_memory.hpp"
#include "tests/mpi/all_reduces.hpp"

namespace flotilla::mpi {
namespace {

class AllReduce : public testing::TestWithParam<Way> {
 protected:
  static constexpr std::size_t room = 66'000;

  void SetUp() override {
    if (collectives_ == nullptr) GTEST_SKIP() << "not on several hosts";
  }

  Communicator world_ = Communicator::world();
  SharedStorage storage_{world_.split_by_host(), room};
  std::unique_ptr<Collectives> collectives_ = make(GetParam(), world_, storage_);
};

INSTANTIATE_TEST_SUITE_P(Ways, AllReduce, testing::ValuesIn(all_ways()),
                         [](const auto& test) { return test_name(test.param); });

/// Integers, so that every sum is exact in float and on the wire.
float value(std::size_t i, int rank, int call, std::size_t below) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(13 * rank + 31 * call)) % below);
}

TEST_P(AllReduce, SumsAnyCountAtAnyPlaceExactly) {
  const std::size_t below = exact_below(GetParam().wire);
  int call = 0;
  for (const std::size_t count :
       {0, 1, 2, 15, 16, 17, 31, 127, 997, 2047, 2048, 2049, 2053, 4096, 10'007, 65'537}) {
    for (const std::size_t offset : {0, 1, 5}) {
      const std::span<float> all = storage_.mine().first(offset + count + 20);  // what must stay, too
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = value(i, world_.rank(), call, below);

      collectives_->all_reduce(device_span(all.subspan(offset, count)));

      std::size_t wrong = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        float expected = value(i, world_.rank(), call, below);
        if (i >= offset && i < offset + count) {
          expected = 0;
          for (int rank = 0; rank < world_.size(); ++rank) expected += value(i, rank, call, below);
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

    collectives_->all_reduce(device_span(data));

    const std::vector<float> all = world_.all_gather(std::span<const float>(data));
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(all[i]), std::bit_cast<std::uint32_t>(all[i % count]));
    }
  }
}

/// The tree over [first, first + count), cut at the largest power of two below the count, by definition.
float tree_sum(int first, int count, const std::function<float(int)>& value_of) {
  if (count == 1) return value_of(first);
  int left = 1;
  while (2 * left < count) left *= 2;
  return tree_sum(first, left, value_of) + tree_sum(first + left, count - left, value_of);
}

TEST_P(AllReduce, AddsInTheTreeWhereItMust) {
  const Way& way = GetParam();
  if (way.algorithm != "shared-memory" && way.order != SumOrder::tree) GTEST_SKIP() << "in any order";
  if (way.algorithm == "hierarchical" &&
      !groups_are_subtrees(cut_groups(find_topology(world_), std::min(way.ranks_per_group, world_.size()))))
    GTEST_SKIP() << "ranks are placed on the hosts in turn";
  const auto value_of = [](std::size_t i, int rank) {
    return 1.0f / (1.0f + static_cast<float>(i * 3 + static_cast<std::size_t>(rank) * 7));
  };
  const std::span<float> data = storage_.mine().subspan(3, 20'011);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = value_of(i, world_.rank());

  collectives_->all_reduce(device_span(data));

  for (std::size_t i = 0; i < data.size(); ++i) {
    const float expected = tree_sum(0, world_.size(), [&](int rank) { return value_of(i, rank); });
    ASSERT_EQ(std::bit_cast<std::uint32_t>(data[i]), std::bit_cast<std::uint32_t>(expected)) << i;
  }
}

TEST_P(AllReduce, MayBeCalledInARowWithoutABreak) {
  // Fast ranks run ahead into the next call: whatever the order, no call may see another's values.
  const std::span<float> data = storage_.mine();
  for (int call = 0; call < 150; ++call) {
    const std::size_t count = call % 3 == 0 ? 4000 : 5;
    const auto mine = static_cast<float>(world_.rank() + call % 20);
    std::fill_n(data.begin(), count, mine);

    collectives_->all_reduce(device_span(data.first(count)));

    const int n = world_.size();
    const auto expected = static_cast<float>(n * (n - 1) / 2 + n * (call % 20));
    ASSERT_EQ(data[0], expected) << "call " << call;
    ASSERT_EQ(data[count - 1], expected) << "call " << call;
  }
}

TEST_P(AllReduce, KnowsItsGroup) {
  EXPECT_EQ(collectives_->ranks(), world_.size());
  EXPECT_EQ(collectives_->missing_ranks(), std::vector<int>());
  constexpr std::size_t count = 1008;  // a multiple of all rank counts
  auto sent = static_cast<double>(collectives_->sent_bytes(count));
  world_.all_reduce(std::span(&sent, 1));
  // All together send every value to n − 1 ranks' owners and back; a half wire takes half of it.
  const double n = world_.size();
  EXPECT_GE(sent, (n - 1) * count * (GetParam().wire == Wire::float32 ? 4 : 2));
  EXPECT_LE(sent, 2 * (n - 1) * count * 4);
}

}  // namespace
}  // namespace flotilla::mpi
