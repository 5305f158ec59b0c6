// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/communicator.hpp"
#include "tests/mpi/on_all_ranks.hpp"
#include "tests/support/messages.hpp"

namespace flotilla::mpi {
namespace {

static_assert(!std::is_copy_constructible_v<Communicator>);
static_assert(!Scalar<bool> && !Scalar<unsigned> && !Number<std::byte> && !Number<char>);

template <class T>
class CommunicatorOf : public testing::Test {};
using Numbers = testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(CommunicatorOf, Numbers);

TYPED_TEST(CommunicatorOf, AllReduceSumsOverRanks) {
  const auto world = Communicator::world();
  std::array values{TypeParam(world.rank()), TypeParam(1), TypeParam(-3)};

  world.all_reduce(std::span<TypeParam>(values));

  const auto n = TypeParam(world.size());
  EXPECT_EQ(values, (std::array{TypeParam(n * (n - 1) / 2), n, TypeParam(-3 * n)}));
}

TYPED_TEST(CommunicatorOf, AllReduceFindsTheExtremes) {
  const auto world = Communicator::world();
  auto low = TypeParam(world.rank() + 5);
  auto high = low;

  world.all_reduce(std::span(&low, 1), Op::min);
  world.all_reduce(std::span(&high, 1), Op::max);

  EXPECT_EQ(low, TypeParam(5));
  EXPECT_EQ(high, TypeParam(world.size() + 4));
}

TYPED_TEST(CommunicatorOf, AllGatherKeepsRankOrder) {
  const auto world = Communicator::world();
  const std::array mine{TypeParam(world.rank()), TypeParam(10 * world.rank())};

  const std::vector<TypeParam> all = world.all_gather(std::span<const TypeParam>(mine));

  ASSERT_EQ(all.size(), 2u * static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(all[2 * static_cast<std::size_t>(rank)], TypeParam(rank));
    EXPECT_EQ(all[2 * static_cast<std::size_t>(rank) + 1], TypeParam(10 * rank));
  }
}

TYPED_TEST(CommunicatorOf, BroadcastsFromAnyRank) {
  const auto world = Communicator::world();
  for (int root = 0; root < world.size(); ++root) {
    std::vector<TypeParam> values(1001, TypeParam(world.rank()));

    world.broadcast(std::span(values), root);

    EXPECT_EQ(values, std::vector<TypeParam>(1001, TypeParam(root)));
  }
}

using CommunicatorOnAllRanks = OnAllRanks;

TEST_F(CommunicatorOnAllRanks, BroadcastsBytes) {
  std::array values{std::byte(world.rank() + 1), std::byte(7)};

  world.broadcast(std::span<std::byte>(values));

  EXPECT_EQ(values, (std::array{std::byte(1), std::byte(7)}));
}

TEST_F(CommunicatorOnAllRanks, BroadcastsATextWithItsLength) {
  std::string text = world.is_root() ? "from the root" : "longer than what the root has to say";
  std::string empty = world.is_root() ? "" : "something";

  world.broadcast(text);
  world.broadcast(empty);

  EXPECT_EQ(text, "from the root");
  EXPECT_EQ(empty, "");
}

TEST_F(CommunicatorOnAllRanks, GathersTextsOfUnequalLength) {
  const std::vector<std::string> all =
      world.all_gather(std::string(static_cast<std::size_t>(world.rank()), 'x'));

  ASSERT_EQ(all.size(), static_cast<std::size_t>(world.size()));
  for (std::size_t rank = 0; rank < all.size(); ++rank) EXPECT_EQ(all[rank], std::string(rank, 'x'));
}

TEST_F(CommunicatorOnAllRanks, TakesEmptySpans) {
  world.all_reduce(std::span<float>());
  world.broadcast(std::span<double>());

  EXPECT_TRUE(world.all_gather(std::span<const float>()).empty());
}

TEST_F(CommunicatorOnAllRanks, SplitsByColorInItsOwnOrder) {
  const auto group = world.split(world.rank() % 2);

  EXPECT_EQ(group.rank(), world.rank() / 2);
  EXPECT_EQ(group.size(), (world.size() + 1 - world.rank() % 2) / 2);
}

TEST_F(CommunicatorOnAllRanks, FindsTheRanksOfAHost) {
  const auto host = world.split_by_host();

  EXPECT_EQ(host.size(), world.size());
  EXPECT_EQ(host.rank(), world.rank());
}

TEST_F(CommunicatorOnAllRanks, ClonesIntoAnotherMessageSpace) {
  auto clone = world.collective_clone();
  auto other = world.split(0);

  other = std::move(clone);  // the groups change places; both are freed once, at the end of their scope

  EXPECT_EQ(other.rank(), world.rank());
  EXPECT_EQ(other.size(), world.size());
  other.barrier();
}

TEST_F(CommunicatorOnAllRanks, NamesTheCallAndThePlaceOfAnError) {
  float value = 1;

  const std::string text =
      test::error_of<LibraryError>([&] { world.broadcast(std::span(&value, 1), world.size()); });
  EXPECT_TRUE(text.starts_with("MPI_Bcast failed: MPI_ERR_ROOT") ||
              text.starts_with("MPI_Bcast failed: Invalid root"))  // Open MPI's words, and MPICH's
      << text;
  EXPECT_TRUE(test::mentions(text, {"communicator.cpp:"}));
}

TEST_F(CommunicatorOnAllRanks, IsQuietWhileAnExceptionIsThrown) {
  // Freeing is collective: if the destructor did it, this rank would meet the others in the wrong call.
  try {
    const auto group = world.collective_clone();
    if (world.is_root()) throw std::runtime_error("on one rank only");
  } catch (const std::runtime_error&) {
  }

  int one = 1;
  world.all_reduce(std::span(&one, 1));
  EXPECT_EQ(one, world.size());
}

}  // namespace
}  // namespace flotilla::mpi
