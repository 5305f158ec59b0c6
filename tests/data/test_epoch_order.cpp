// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/batch_plan.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr OrderSpec blocks_of_8{.order = SampleOrder::blocks, .block = 8, .buffer = 32};

Numbers samples_in(EpochOrder order, std::int64_t begin, std::int64_t end) {
  Numbers samples;
  for (std::int64_t position = begin; position < end; ++position) samples.push_back(order.sample(position));
  return samples;
}

Numbers sorted(Numbers values) {
  std::ranges::sort(values);
  return values;
}

Numbers all(std::int64_t count) {
  Numbers values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(EpochOrder, HasEachSampleOnceWhateverTheSizes) {
  for (const std::int64_t samples : {1, 7, 8, 31, 32, 33, 64, 203}) {
    for (const OrderSpec& spec : {blocks_of_8, OrderSpec{SampleOrder::blocks, 1, 1},
                                  OrderSpec{SampleOrder::blocks, 5, 1000}, OrderSpec{}}) {
      EXPECT_EQ(sorted(samples_in({3, 2, samples, spec}, 0, samples)), all(samples)) << samples;
    }
  }
}

TEST(EpochOrder, OfBlocksTakesAWindowFromItsBlocksOnly) {
  const std::int64_t samples = 203;  // 25 whole blocks and one of 3
  EpochOrder order(3, 2, samples, blocks_of_8);

  ASSERT_EQ(order.windows(), 7);
  std::set<std::int64_t> begins;
  for (std::int64_t window = 0; window < order.windows(); ++window) {
    Numbers of_blocks;
    for (std::int64_t number = 0; number < order.blocks(window); ++number) {
      const SampleRange block = order.block(window, number);
      EXPECT_EQ(block.first % 8, 0);
      EXPECT_EQ(block.count, block.first == 200 ? 3 : 8);
      EXPECT_TRUE(begins.insert(block.first).second) << "a block in two windows";
      for (std::int64_t k = 0; k < block.count; ++k) of_blocks.push_back(block.first + k);
    }
    const Numbers taken = samples_in(order, window * 32, std::min<std::int64_t>((window + 1) * 32, samples));
    EXPECT_EQ(sorted(taken), sorted(of_blocks));
    EXPECT_NE(taken, of_blocks) << "not shuffled";
  }
}

TEST(EpochOrder, DependsOnSeedAndEpochAndNotOnTheWayThroughIt) {
  const Numbers order = samples_in({3, 2, 203, blocks_of_8}, 0, 203);

  EXPECT_NE(order, samples_in({4, 2, 203, blocks_of_8}, 0, 203));
  EXPECT_NE(order, samples_in({3, 3, 203, blocks_of_8}, 0, 203));
  EpochOrder backwards(3, 2, 203, blocks_of_8);
  for (std::int64_t position = 202; position >= 0; --position)
    EXPECT_EQ(backwards.sample(position), order[static_cast<std::size_t>(position)]);
}

TEST(EpochOrder, RefusesABufferThatCutsBlocks) {
  EXPECT_THROW(EpochOrder(1, 0, 100, {.order = SampleOrder::blocks, .block = 8, .buffer = 12}),
               InternalError);
}

/// Notes what it is told.
class ToldDataset final : public Dataset {
 public:
  explicit ToldDataset(std::int64_t size) { set_facts({.size = size, .shape = {1}, .description = "told"}); }
  std::int32_t read(std::int64_t, std::uint64_t, std::span<float>) const override { return 0; }
  void will_read(std::int64_t first, std::int64_t count) const override {
    EXPECT_GT(count, 0);
    EXPECT_LE(first + count, size());
    for (std::int64_t k = first; k < first + count; ++k) ++told[k];
  }
  mutable std::map<std::int64_t, int> told;
};

/// Two workers of one host take `steps` steps from `position` on; what they read was told since it was read
/// last, once, or once more for each epoch that left it out.
/// @returns what is wrong, empty if all is well
std::string fault_in_what_was_told(const Sharding& sharding, Position position, int steps) {
  const Sampler sampler(5, sharding);
  const ToldDataset data(sharding.samples);
  const Position begin = position;
  for (int step = 0; step < steps; ++step, position = sampler.after(position)) {
    for (std::int64_t worker = 0; worker < sharding.workers; ++worker)
      ReadAhead(sampler, worker, {worker, sharding.workers}).before_step(data, position, step == 0);
    for (std::int64_t worker = 0; worker < sharding.workers; ++worker) {
      Numbers samples(static_cast<std::size_t>(sharding.batch));
      sampler.indices(position, worker, 0, samples);
      for (const std::int64_t sample : samples) {
        const int told = data.told[sample]--;
        if (told < 1) return cat("step ", step, ": sample ", sample, " was not told");
        if (told > position.epoch - begin.epoch + 2)
          return cat("step ", step, ": sample ", sample, " was told ", told, " times");
      }
    }
  }
  return {};
}

TEST(ReadAhead, TellsOfEverySampleBeforeItIsReadAndOnce) {
  for (const SampleOrder order : {SampleOrder::blocks, SampleOrder::file}) {
    for (const std::int64_t buffer : {8, 32, 1024}) {
      for (const std::int64_t batch : {1, 10, 40}) {
        // A step that wraps around reads samples again that were told long ago, or before a resume.
        const Sharding sharding{.samples = 203,
                                .workers = 2,
                                .batch = batch,
                                .drop_last = true,
                                .order = order,
                                .block = 8,
                                .buffer = buffer};
        SCOPED_TRACE(cat(word(order), ", buffer ", buffer, ", batch ", batch));
        EXPECT_EQ(fault_in_what_was_told(sharding, {0, 0}, static_cast<int>(5 * 203 / batch / 2)), "");
        // As a run that is resumed
        EXPECT_EQ(fault_in_what_was_told(sharding, {1, 120}, static_cast<int>(2 * 203 / batch / 2)), "");
      }
    }
  }
}

TEST(ReadAhead, TellsNothingWhereNeighboursAreNotReadTogether) {
  const ToldDataset data(203);
  const Sampler shuffled(5, {.samples = 203, .workers = 1, .batch = 10});
  ReadAhead(shuffled, 0, {}).before_step(data, {0, 0}, true);
  const Sampler shares(5, {.samples = 203,
                           .workers = 1,
                           .batch = 10,
                           .order = SampleOrder::file,
                           .buffer = 32,
                           .shares = {0, 203}});
  ReadAhead(shares, 0, {}).before_step(data, {0, 0}, true);

  EXPECT_TRUE(data.told.empty());
}

}  // namespace
}  // namespace flotilla
