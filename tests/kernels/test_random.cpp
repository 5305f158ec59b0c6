// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

/// The four values at the start of a stream.
std::vector<std::uint32_t> first_block(std::uint64_t seed, std::uint32_t purpose, std::uint64_t index) {
  Random random(seed, purpose, index);
  std::vector<std::uint32_t> block(4);
  for (std::uint32_t& value : block) value = random.bits();
  return block;
}

// The known answers of Random123's kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, GivesTheKnownAnswers) {
  using Block = std::array<std::uint32_t, 4>;
  constexpr std::uint32_t ones = 0xffffffff;

  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, StreamsDifferInSeedPurposeAndIndex) {
  std::set<std::vector<std::uint32_t>> blocks;

  for (const std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (const std::uint32_t purpose : {1U, 2U}) {
      for (const std::uint64_t index : {0ULL, 1ULL, 1ULL << 32})
        blocks.insert(first_block(seed, purpose, index));
    }
  }

  EXPECT_EQ(blocks.size(), 18U);
}

TEST(Random, FillGivesTheValuesThatSingleDrawsGive) {
  for (const std::size_t before : {0U, 1U, 3U, 4U}) {
    for (const std::size_t size : {0U, 1U, 5U, 127U, 128U, 131U, 1000U}) {
      Random filled(5, random_data, 1ULL << 40);
      Random drawn(5, random_data, 1ULL << 40);
      for (std::size_t i = 0; i < before; ++i) EXPECT_EQ(filled.bits(), drawn.bits());
      std::vector<float> values(size);

      filled.fill(values);

      for (const float value : values) ASSERT_EQ(value, static_cast<float>(drawn.bits() >> 8) * 0x1p-24F);
      EXPECT_EQ(filled.bits(), drawn.bits()) << before << " before " << size;
    }
  }
}

TEST(Random, BelowStaysBelowAndReachesEveryValue) {
  Random random(7, random_data);
  std::vector<int> count(6);

  for (int draw = 0; draw < 6000; ++draw) ++count.at(random.below(6));

  // 1,000 expected, standard deviation 29: five of them.
  for (const int hits : count) EXPECT_TRUE(test::within(hits, 1000, 145));
}

TEST(Random, UniformAndNormalHaveTheirMoments) {
  Random random(11, random_weights);
  const int draws = 100000;
  double uniform = 0.0;
  double normal = 0.0;
  double square = 0.0;

  for (int draw = 0; draw < draws; ++draw) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    const double z = random.normal();
    uniform += u / draws;
    normal += z / draws;
    square += z * z / draws;
  }

  // Five standard deviations of each mean.
  EXPECT_TRUE(test::within(uniform, 0.5, 5 * 0.2887 / std::sqrt(draws)));
  EXPECT_TRUE(test::within(normal, 0.0, 5 / std::sqrt(draws)));
  EXPECT_TRUE(test::within(square, 1.0, 5 * 1.4143 / std::sqrt(draws)));
}

TEST(Random, FillsManyStreamsAsEachByItself) {
  for (const std::size_t count : {0, 1, 3, 4, 10, 16, 64, 129}) {
    for (const std::size_t streams : {0, 1, 5, 16, 100}) {
      std::vector<std::uint64_t> indices;
      std::vector<std::vector<float>> values(streams, std::vector<float>(count + 1, -1.0F));
      std::vector<float*> places;
      for (std::size_t i = 0; i < streams; ++i) {
        indices.push_back(i * 0x9E3779B97F4A7C15U);
        places.push_back(values[i].data());
      }

      fill_streams(11, random_rows, indices, places, count);

      for (std::size_t i = 0; i < streams; ++i) {
        std::vector<float> expected(count + 1, -1.0F);
        Random(11, random_rows, indices[i]).fill(std::span(expected).first(count));
        ASSERT_EQ(values[i], expected) << count << " values, stream " << i;
      }
    }
  }
}

TEST(Permutation, IsABijectionForEverySize) {
  std::vector<std::uint64_t> sizes = {1000, 1023, 1024, 1025, 10000, 60000, 65536, 65537};
  for (std::uint64_t size = 1; size <= 130; ++size) sizes.push_back(size);
  for (const std::uint64_t size : sizes) {
    const Permutation permutation(3, random_order, 5, size);
    std::vector<bool> seen(size);

    for (std::uint64_t i = 0; i < size; ++i) seen.at(permutation(i)) = true;

    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<std::ptrdiff_t>(size)) << size;
  }
}

TEST(Permutation, MovesMostPositionsAndDiffersBetweenEpochs) {
  const Permutation first(3, random_order, 0, 10000);
  const Permutation second(3, random_order, 1, 10000);
  int fixed = 0;
  int equal = 0;

  for (std::uint64_t i = 0; i < 10000; ++i) {
    fixed += first(i) == i ? 1 : 0;
    equal += first(i) == second(i) ? 1 : 0;
  }

  // One of each is expected of random permutations; Poisson leaves fewer than 10 with p > 1 − 1e-6.
  EXPECT_LT(fixed, 10);
  EXPECT_LT(equal, 10);
}

TEST(Permutation, RefusesPositionsOutside) {
  const Permutation permutation(0, random_order, 0, 10);

  EXPECT_THROW(permutation(10), InternalError);
}

TEST(Permutation, HandlesTheLargestSizes) {
  const std::uint64_t size = ~std::uint64_t{0};
  const Permutation permutation(1, random_order, 2, size);

  EXPECT_LT(permutation(0), size);
  EXPECT_NE(permutation(0), permutation(1));
}

}  // namespace
}  // namespace flotilla
