// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/batch_plan.hpp"
#include "src/data/sampler.hpp"
#include "tests/support/messages.hpp"

namespace flotilla {
namespace {

using test::mentions;

using Indices = std::vector<std::int64_t>;

/// The samples of one step over all workers and micro-steps, in global order.
Indices step_samples(const Sampler& sampler, Position position) {
  const Sharding& sharding = sampler.sharding();
  Indices all;
  Indices part(static_cast<std::size_t>(sharding.batch));
  for (std::int64_t worker = 0; worker < sharding.workers; ++worker) {
    for (std::int64_t micro = 0; micro < sharding.micro_steps; ++micro) {
      sampler.indices(position, worker, micro, part);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

Indices epoch_samples(const Sampler& sampler, std::int64_t epoch) {
  Indices all;
  Position position{epoch, 0};
  for (; position.epoch == epoch; position = sampler.after(position)) {
    const Indices step = step_samples(sampler, position);
    all.insert(all.end(), step.begin(), step.end());
  }
  return all;
}

Indices sorted(Indices values) {
  std::sort(values.begin(), values.end());
  return values;
}

Indices iota(std::int64_t count) {
  Indices values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Sampler, BalancedDrawsEachClassOnceInARoundForAnyNumberOfWorkers) {
  // 13 samples of class 0, 4 of class 2, 3 of class 5; the others do not occur.
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 20; ++i) labels.push_back(i % 5 == 1 ? 2 : i % 7 == 3 ? 5 : 0);
  const auto classes = std::make_shared<const ClassSamples>(labels);
  Indices one;
  for (const std::int64_t workers : {1, 2, 3}) {
    const Sampler sampler(9, {.samples = 20,
                              .workers = workers,
                              .batch = 6 / workers,
                              .order = SampleOrder::balanced,
                              .classes = classes});
    Indices all;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch)
      for (const std::int64_t sample : epoch_samples(sampler, epoch)) all.push_back(sample);
    if (workers == 1) one = all;
    EXPECT_EQ(all, one) << workers;
  }
  ASSERT_EQ(one.size(), 3U * 24U);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::map<std::int32_t, Indices> drawn;
    for (std::size_t position = 0; position < 18; ++position) {
      const std::int64_t sample = one[24 * epoch + position];
      drawn[labels[static_cast<std::size_t>(sample)]].push_back(sample);
    }
    ASSERT_EQ(drawn.size(), 3U);
    for (auto& [label, found] : drawn) {
      EXPECT_EQ(found.size(), 6U) << "one of each class in each of six rounds";
      const auto count = static_cast<std::size_t>(std::ranges::count(labels, label));
      const std::set<std::int64_t> first(
          found.begin(), found.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(count, 6)));
      EXPECT_EQ(first.size(), std::min<std::size_t>(count, 6))
          << "all of a class come before one comes again";
    }
  }
  EXPECT_NE(Indices(one.begin(), one.begin() + 20), Indices(one.begin() + 24, one.begin() + 44));
}

TEST(Sampler, VisitsEverySampleOnceAnEpochWhereTheGlobalBatchDivides) {
  for (const std::int64_t workers : {1, 2, 3, 4}) {
    const Sampler sampler(7, {.samples = 240, .workers = workers, .batch = 10, .micro_steps = 2});

    const Indices all = epoch_samples(sampler, 3);

    EXPECT_EQ(sorted(all), iota(240)) << workers << " workers";
  }
}

TEST(Sampler, OrdersSamplesAlikeForEveryDivisionOfTheGlobalBatch) {
  const Sampler whole(5, {.samples = 1000, .workers = 1, .batch = 64});
  const std::vector<Sharding> divisions = {{.samples = 1000, .workers = 4, .batch = 16},
                                           {.samples = 1000, .workers = 2, .batch = 32},
                                           {.samples = 1000, .workers = 2, .batch = 8, .micro_steps = 4},
                                           {.samples = 1000, .workers = 1, .batch = 1, .micro_steps = 64}};
  for (const Sharding& division : divisions) {
    const Sampler sampler(5, division);
    Position position;
    for (int step = 0; step < 40; ++step) {
      ASSERT_EQ(step_samples(sampler, position), step_samples(whole, position)) << "step " << step;
      ASSERT_EQ(sampler.after(position), whole.after(position));
      position = whole.after(position);
    }
  }
}

TEST(Sampler, WrapsTheLastBatchToTheStartOfTheSameOrder) {
  const Sampler sampler(1, {.samples = 10, .workers = 2, .batch = 2});

  const Indices all = epoch_samples(sampler, 0);

  ASSERT_EQ(sampler.sharding().steps_per_epoch(), 3);
  ASSERT_EQ(all.size(), 12U);
  EXPECT_EQ(sorted({all.begin(), all.begin() + 10}), iota(10));
  EXPECT_EQ(all[10], all[0]);
  EXPECT_EQ(all[11], all[1]);
}

TEST(Sampler, DropsTheIncompleteBatch) {
  const Sampler sampler(1, {.samples = 10, .workers = 2, .batch = 2, .drop_last = true});

  const Indices all = epoch_samples(sampler, 0);

  EXPECT_EQ(sampler.sharding().steps_per_epoch(), 2);
  ASSERT_EQ(all.size(), 8U);
  const Indices unique = sorted(all);
  EXPECT_EQ(std::adjacent_find(unique.begin(), unique.end()), unique.end());
}

TEST(Sampler, CountsTheStepsThatRemainAndTheBatchesBeforeFromAnyPosition) {
  for (const bool drop : {false, true}) {
    for (const std::int64_t offset : {0, 1, 6, 12, 13, 47, 48, 49}) {  // of 12 and of other batches
      const Sharding sharding{.samples = 50, .workers = 3, .batch = 4, .drop_last = drop};
      const Sampler sampler(1, sharding);
      Position position = sampler.after({1, offset}, 0);
      std::int64_t steps = 0;
      for (std::int64_t before = 0; position.epoch < 3; ++steps) {
        const bool begins = position.offset == 0;
        position = sampler.after(position);
        const std::int64_t expected = begins ? 1 : before + 1;
        if (begins || before > 0) {
          EXPECT_EQ(sharding.batch_before(position), expected) << offset;
        }
        before = sharding.batch_before(position);
      }
      EXPECT_EQ(sharding.steps_until({1, offset}, 3), steps) << "offset " << offset << ", drop " << drop;
    }
  }
  EXPECT_EQ((Sharding{.samples = 50, .batch = 12}.steps_until({3, 0}, 3)), 0);
}

TEST(Sampler, ShufflesEachEpochAndEachSeedDifferently) {
  const Sharding sharding{.samples = 100, .workers = 1, .batch = 10};

  const Indices first = epoch_samples(Sampler(1, sharding), 0);

  EXPECT_NE(first, iota(100));
  EXPECT_NE(first, epoch_samples(Sampler(1, sharding), 1));
  EXPECT_NE(first, epoch_samples(Sampler(2, sharding), 0));
  EXPECT_EQ(first, epoch_samples(Sampler(1, sharding), 0));
}

TEST(Sampler, GoesManyStepsAtOnceAsOneByOne) {
  for (const bool drop : {false, true}) {
    for (const std::int64_t offset : {0, 3, 24, 48, 50}) {
      const Sampler sampler(1, {.samples = 50, .workers = 3, .batch = 4, .drop_last = drop});
      Position one_by_one = sampler.after({2, offset}, 0);
      for (std::int64_t steps = 0; steps < 30; ++steps) {
        ASSERT_EQ(sampler.after({2, offset}, steps), one_by_one)
            << "offset " << offset << ", " << steps << " steps";
        one_by_one = sampler.after(one_by_one);
      }
    }
  }
}

TEST(Sampler, ContinuesAtTheSameSampleWithAnotherGlobalBatch) {
  const Sampler before(9, {.samples = 64, .workers = 2, .batch = 8});
  const Sampler after(9, {.samples = 64, .workers = 3, .batch = 8});

  const Position position = before.after(before.after({}));
  Indices seen = step_samples(before, {});
  for (const Indices& step : {step_samples(before, before.after({})), step_samples(after, position)}) {
    seen.insert(seen.end(), step.begin(), step.end());
  }

  EXPECT_EQ(position, (Position{0, 32}));
  EXPECT_EQ(after.after(position), (Position{0, 56}));
  const Indices unique = sorted(seen);
  EXPECT_EQ(std::adjacent_find(unique.begin(), unique.end()), unique.end());
}

TEST(Sampler, StartsTheNextEpochWhereAnotherShardingLeftTooLittleToDrop) {
  const Sampler sampler(9, {.samples = 64, .workers = 4, .batch = 8, .drop_last = true});

  EXPECT_EQ(step_samples(sampler, {0, 48}), step_samples(sampler, {1, 0}));
  EXPECT_EQ(sampler.after({0, 48}), (Position{1, 32}));
}

TEST(Sampler, VariesAugmentationBetweenEpochs) {
  const Sampler sampler(1, {.samples = 8, .workers = 1, .batch = 8});

  EXPECT_EQ(sampler.variation(3), Sampler(1, {.samples = 9, .workers = 3, .batch = 1}).variation(3));
  EXPECT_NE(sampler.variation(3), sampler.variation(4));
}

/// The text of the UserError that check_sharding throws.
std::string complaint(const Sharding& sharding) {
  return test::error_of([&] { check_sharding(sharding); });
}

TEST(Sampler, GivesAnyPartOfABatch) {
  const Sampler sampler(5, {.samples = 50, .workers = 2, .batch = 6, .micro_steps = 2});
  Indices whole(6);
  Indices part(3);

  sampler.indices({1, 24}, 1, 1, whole);
  sampler.indices({1, 24}, 1, 1, part, 2);

  EXPECT_EQ(part, Indices(whole.begin() + 2, whole.begin() + 5));
  EXPECT_THROW(sampler.indices({1, 24}, 1, 1, part, 4), InternalError);
}

TEST(Sampler, SubstitutesDependOnSeedSampleAndAttemptAlone) {
  const Sampler sampler(5, {.samples = 1000, .workers = 1, .batch = 10});
  const Sampler divided(5, {.samples = 1000, .workers = 4, .batch = 5, .micro_steps = 2});
  const Sampler seeded(6, {.samples = 1000, .workers = 1, .batch = 10});
  std::set<std::int64_t> chosen;
  for (std::int64_t sample = 0; sample < 20; ++sample) {
    for (std::int64_t attempt = 0; attempt < 5; ++attempt) {
      const std::int64_t substitute = sampler.substitute(sample, attempt);
      EXPECT_EQ(divided.substitute(sample, attempt), substitute);
      ASSERT_GE(substitute, 0);
      ASSERT_LT(substitute, 1000);
      chosen.insert(substitute);
    }
  }

  // 100 draws of 1,000 values: 95 different ones expected, standard deviation 2.
  EXPECT_GT(chosen.size(), 85U);
  EXPECT_NE(seeded.substitute(0, 0), sampler.substitute(0, 0));
}

TEST(Sharding, RefusesMoreRanksThanSamplesNamingBoth) {
  const std::string text = complaint({.samples = 5, .workers = 8, .batch = 1});

  EXPECT_TRUE(mentions(text, {"more ranks than samples: 8 ranks", "5 training samples"}));
}

TEST(Sharding, RefusesABatchLargerThanTheDataNamingTheLargestThatFits) {
  const std::string text = complaint({.samples = 100, .workers = 4, .batch = 16, .micro_steps = 2});

  EXPECT_TRUE(mentions(text, {"batch larger than the data", "train.batch_size may be at most 12"}));
  EXPECT_EQ(complaint({.samples = 100, .workers = 4, .batch = 12, .micro_steps = 2}), "");
}

TEST(Sampler, InOrderEveryEpochIsThatOfTheData) {
  const Sampler sampler(
      7, {.samples = 240, .workers = 3, .batch = 10, .micro_steps = 2, .order = SampleOrder::file});

  EXPECT_EQ(epoch_samples(sampler, 0), iota(240));
  EXPECT_EQ(epoch_samples(sampler, 5), iota(240));
}

/// The samples of an epoch that one worker takes.
Indices samples_of(const Sampler& sampler, std::int64_t worker, std::int64_t epoch) {
  Indices all;
  Indices part(static_cast<std::size_t>(sampler.sharding().batch));
  for (Position position{epoch, 0}; position.epoch == epoch; position = sampler.after(position)) {
    for (std::int64_t micro = 0; micro < sampler.sharding().micro_steps; ++micro) {
      sampler.indices(position, worker, micro, part);
      all.insert(all.end(), part.begin(), part.end());
    }
  }
  return all;
}

TEST(Sampler, WithSharesEachWorkerTakesItsOwnAndBeginsAnewUntilTheLargestIsRead) {
  for (const bool in_order : {true, false}) {
    const Sampler sampler(7, {.samples = 100,
                              .workers = 3,
                              .batch = 4,
                              .micro_steps = 2,
                              .order = in_order ? SampleOrder::file : SampleOrder::shuffled,
                              .shares = {0, 30, 97, 100}});

    ASSERT_EQ(sampler.sharding().steps_per_epoch(), 9);  // 67 samples, 8 a step
    for (const std::int64_t epoch : {0, 3}) {
      const Indices first = samples_of(sampler, 0, epoch);
      const Indices second = samples_of(sampler, 1, epoch);
      const Indices third = samples_of(sampler, 2, epoch);

      ASSERT_EQ(first.size(), 72U);
      EXPECT_EQ(sorted(Indices(first.begin(), first.begin() + 30)), iota(30));
      EXPECT_EQ(std::set(second.begin(), second.end()).size(), 67U);
      EXPECT_EQ(*std::min_element(second.begin(), second.end()), 30);
      EXPECT_EQ(*std::max_element(second.begin(), second.end()), 96);
      for (std::size_t k = 0; k < 72; ++k) {
        EXPECT_EQ(first[k], first[k % 30]);
        EXPECT_EQ(third[k], third[k % 3]);
        if (in_order) {
          EXPECT_EQ(third[k], 97 + static_cast<std::int64_t>(k % 3));
        }
      }
    }
  }
}

TEST(Sampler, WithSharesAndDropTheSmallestEndsTheEpoch) {
  const Sampler sampler(
      7, {.samples = 100, .workers = 2, .batch = 8, .drop_last = true, .shares = {0, 25, 100}});

  EXPECT_EQ(sampler.sharding().steps_per_epoch(), 3);
  EXPECT_EQ(sampler.after({0, 0}, 3), (Position{1, 0}));
  const Indices second = samples_of(sampler, 1, 0);
  EXPECT_EQ(std::set(second.begin(), second.end()).size(), 24U);
  // A position of other workers that is not a whole number of steps is rounded up.
  EXPECT_EQ(sampler.after({0, 17}, 1), (Position{1, 0}));
}

TEST(Sharding, RefusesAWorkerWithoutAShare) {
  const std::string text = complaint({.samples = 100, .workers = 3, .batch = 2, .shares = {0, 50, 50, 100}});

  EXPECT_TRUE(mentions(text, {"worker 1 gets 0 samples"}));
  EXPECT_NE(complaint({.samples = 100, .workers = 2, .batch = 8, .drop_last = true, .shares = {0, 95, 100}}),
            "");
  EXPECT_EQ(complaint({.samples = 100, .workers = 2, .batch = 8, .shares = {0, 95, 100}}), "");
}

TEST(Sharding, RefusesABatchWhoseProductOverflows) {
  const std::string text = complaint({.samples = 100, .workers = 4, .batch = std::int64_t{1} << 62});

  EXPECT_TRUE(mentions(text, {"batch larger than the data"}));
  EXPECT_THROW(Sampler(1, {.samples = 5, .workers = 8, .batch = 1}), UserError);
}

TEST(ValidationShard, CoversEverySampleOnceInOrderForAnyNumberOfWorkers) {
  for (const std::int64_t samples : {0, 1, 3, 10, 1000}) {
    for (const std::int64_t workers : {1, 2, 3, 7, 16}) {
      std::int64_t next = 0;
      for (std::int64_t worker = 0; worker < workers; ++worker) {
        const ValidationShard shard = validation_shard(samples, workers, worker);

        EXPECT_EQ(shard.begin, next);
        EXPECT_GE(shard.end - shard.begin, samples / workers);
        EXPECT_LE(shard.end - shard.begin, samples / workers + 1);
        next = shard.end;
      }
      EXPECT_EQ(next, samples) << workers << " workers";
    }
  }
}

constexpr OrderSpec blocks_of_8{.order = SampleOrder::blocks, .block = 8, .buffer = 32};

Indices samples_in(EpochOrder order, std::int64_t begin, std::int64_t end) {
  Indices samples;
  for (std::int64_t position = begin; position < end; ++position) samples.push_back(order.sample(position));
  return samples;
}

TEST(EpochOrder, HasEachSampleOnceWhateverTheSizes) {
  for (const std::int64_t samples : {1, 7, 8, 31, 32, 33, 64, 203}) {
    for (const OrderSpec& spec : {blocks_of_8, OrderSpec{SampleOrder::blocks, 1, 1},
                                  OrderSpec{SampleOrder::blocks, 5, 1000}, OrderSpec{}}) {
      EXPECT_EQ(sorted(samples_in({3, 2, samples, spec}, 0, samples)), iota(samples)) << samples;
    }
  }
}

TEST(EpochOrder, OfBlocksTakesAWindowFromItsBlocksOnly) {
  const std::int64_t samples = 203;  // 25 whole blocks and one of 3
  EpochOrder order(3, 2, samples, blocks_of_8);

  ASSERT_EQ(order.windows(), 7);
  std::set<std::int64_t> begins;
  for (std::int64_t window = 0; window < order.windows(); ++window) {
    Indices of_blocks;
    for (std::int64_t number = 0; number < order.blocks(window); ++number) {
      const SampleRange block = order.block(window, number);
      EXPECT_EQ(block.first % 8, 0);
      EXPECT_EQ(block.count, block.first == 200 ? 3 : 8);
      EXPECT_TRUE(begins.insert(block.first).second) << "a block in two windows";
      for (std::int64_t k = 0; k < block.count; ++k) of_blocks.push_back(block.first + k);
    }
    const Indices taken = samples_in(order, window * 32, std::min<std::int64_t>((window + 1) * 32, samples));
    EXPECT_EQ(sorted(taken), sorted(of_blocks));
    EXPECT_NE(taken, of_blocks) << "not shuffled";
  }
}

TEST(EpochOrder, DependsOnSeedAndEpochAndNotOnTheWayThroughIt) {
  const Indices order = samples_in({3, 2, 203, blocks_of_8}, 0, 203);

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

/// A data set that records what it is told.
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
      Indices samples(static_cast<std::size_t>(sharding.batch));
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
        // A run that is resumed
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
