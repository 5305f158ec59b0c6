// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "models/embedding_bags.hpp"
#include "tests/support/allocation_count.hpp"

namespace flotilla {
namespace {

using Keys = std::vector<std::uint64_t>;
using Places = std::vector<std::int32_t>;

Keys keys_of(const BatchRows& rows) {
  return {rows.keys().begin(), rows.keys().end()};
}
Places places_of(const BatchRows& rows) {
  return {rows.of_ids().begin(), rows.of_ids().end()};
}

/// Ids and bags that live as long as this.
struct Batch {
  Keys ids;
  Places ends;
  Bags view() const { return {.ids = ids, .values = {}, .ends = ends}; }
};

/// Rows of two slots with up to four ids each, of `ids` different ones.
Batch random_batch(std::uint64_t seed, std::int64_t rows, std::uint64_t ids) {
  Random random(seed, random_data);
  Batch batch;
  for (std::int64_t bag = 0; bag < 2 * rows; ++bag) {
    for (std::uint64_t left = random.below(5); left > 0; --left)
      batch.ids.push_back(random.below(ids) * 0x100000001ULL);
    batch.ends.push_back(static_cast<std::int32_t>(batch.ids.size()));
  }
  return batch;
}

TEST(BatchRows, AreInOrderOfFirstAppearance) {
  BatchRows rows(2, false);
  const Batch batch{{7, 3, 7, 9, 3}, {1, 3, 3, 5}};

  rows.find(batch.view());

  EXPECT_EQ(keys_of(rows), (Keys{7, 3, 9}));
  EXPECT_EQ(places_of(rows), (Places{0, 1, 0, 2, 1}));
}

TEST(BatchRows, TellTheSlotsApartWhereAsked) {
  BatchRows rows(2, true);
  const Batch batch{{7, 7, 7, 7, 7}, {1, 3, 4, 5}};  // slots 0, 1, 0, 1

  rows.find(batch.view());

  ASSERT_EQ(rows.keys().size(), 2U);
  EXPECT_NE(rows.keys()[0], rows.keys()[1]);
  EXPECT_EQ(places_of(rows), (Places{0, 1, 1, 0, 1}));
}

// Checkpoints hold the keys: they must never change.
TEST(BatchRows, GiveASlotTheSameKeysForever) {
  BatchRows rows(2, true);
  const Batch batch{{0, 0}, {1, 2}};

  rows.find(batch.view());

  EXPECT_EQ(keys_of(rows),
            (Keys{0xE220A8397B1DCDAFU, 0x6E789E6AA1B965F4U}));  // SplitMix64's first two of seed 0
}

TEST(BatchRows, AgreeWithAMapWhateverTheBatch) {
  BatchRows rows(2, false);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Batch batch = random_batch(seed, static_cast<std::int64_t>(seed * 37 % 101), 1 + seed * seed);

    rows.find(batch.view());

    std::map<std::uint64_t, std::int32_t> first;
    Keys keys;
    Places places;
    for (const std::uint64_t id : batch.ids) {
      const auto [at, is_new] = first.emplace(id, static_cast<std::int32_t>(keys.size()));
      if (is_new) keys.push_back(id);
      places.push_back(at->second);
    }
    ASSERT_EQ(keys_of(rows), keys) << seed;
    ASSERT_EQ(places_of(rows), places) << seed;
  }
}

TEST(BatchRows, HoldAllKeysThatFallOnOnePlace) {
  // Ids that differ by multiples of 2^58 share the low bits, those that follow each other the high ones.
  BatchRows rows(1, false);
  Batch batch;
  for (std::uint64_t i = 0; i < 64; ++i) {
    batch.ids.push_back(i << 58U);
    batch.ids.push_back(i + 1);
    batch.ends.push_back(static_cast<std::int32_t>(batch.ids.size()));
  }

  rows.find(batch.view());

  EXPECT_EQ(rows.keys().size(), 128U);
}

TEST(BatchRows, AllocateNothingOnceTheyHaveSeenTheLargestBatch) {
  BatchRows rows(2, true);
  const Batch large = random_batch(1, 1000, 500);
  const Batch small = random_batch(2, 10, 5);
  rows.find(large.view());

  const std::int64_t before = test::allocations_of_this_thread();
  for (int i = 0; i < 10; ++i) {
    rows.find(small.view());
    rows.find(large.view());
  }

  EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
}

TEST(BatchRows, RefuseBagsThatDoNotFitTogether) {
  BatchRows rows(2, false);
  const Keys ids = {1, 2, 3};
  const std::vector<float> values = {1.0F};

  for (const Places& ends : {Places{1, 2}, Places{1, 2, 3}, Places{2, 1, 2, 3}, Places{4, 3}})
    EXPECT_THROW(rows.find({.ids = ids, .values = {}, .ends = ends}), InternalError);
  const Places good = {1, 3};
  EXPECT_THROW(rows.find({.ids = ids, .values = values, .ends = good}), InternalError);
  EXPECT_NO_THROW(rows.find({.ids = ids, .values = {}, .ends = good}));
  EXPECT_NO_THROW(rows.find({}));
  EXPECT_TRUE(rows.keys().empty());
}

}  // namespace
}  // namespace flotilla
