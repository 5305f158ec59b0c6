// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/loader.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using test::Sample;

/// Row `row` of a batch.
Sample row_of(const Batch& batch, std::size_t row, const Dataset& data) {
  const auto dense = static_cast<std::size_t>(data.sample_shape().size());
  const auto slots = static_cast<std::size_t>(data.slots());
  Sample sample{.label = batch.labels[row], .dense = {}, .ids = {}, .values = {}, .ends = {}};
  const auto images = batch.images.subspan(row * dense, dense);
  sample.dense.assign(images.begin(), images.end());
  const std::int32_t first = row == 0 ? 0 : batch.bags.ends[row * slots - 1];
  std::int32_t begin = first;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::int32_t end = batch.bags.ends[row * slots + slot];
    for (std::int32_t k = begin; k < end; ++k) {
      sample.ids.push_back(batch.bags.ids[static_cast<std::size_t>(k)]);
      if (!batch.bags.values.empty()) sample.values.push_back(batch.bags.values[static_cast<std::size_t>(k)]);
    }
    sample.ends.push_back(end - first);
    begin = end;
  }
  return sample;
}

std::vector<Sample> take(Loader& loader, const Dataset& data, std::int64_t batches) {
  std::vector<Sample> rows;
  for (std::int64_t b = 0; b < batches; ++b) {
    const Batch& batch = loader.next();
    EXPECT_EQ(std::ssize(batch.bags.ends), std::ssize(batch.labels) * data.slots());
    EXPECT_EQ(static_cast<std::size_t>(batch.bags.ends.back()), batch.bags.ids.size());
    for (std::size_t row = 0; row < batch.labels.size(); ++row) rows.push_back(row_of(batch, row, data));
  }
  return rows;
}

LoaderOptions with_threads(std::int64_t threads) {
  return {.threads = threads, .prefetch = 3, .sink = {}};
}

class ClickLoader : public testing::Test {
 protected:
  ClickLoader() {
    test::save_text(folder.path("criteo"), test::criteo_text(0, 240));
    test::save_text(folder.path("libsvm"), test::libsvm_text(0, 240));
    data.push_back(test::open_criteo(folder.path("criteo")));
    data.push_back(test::open_libsvm(folder.path("libsvm")));
  }

  const test::TemporaryFolder folder;
  std::vector<std::unique_ptr<Dataset>> data;
};

TEST_F(ClickLoader, DeliversTheSamplersSamplesWithAnyNumberOfThreads) {
  for (const auto& set : data) {
    const std::vector<Sample> samples = test::read_all(*set);
    const Sampler sampler(3, {.samples = 240, .workers = 2, .batch = 7, .micro_steps = 2});
    for (const std::int64_t threads : {0, 1, 2, 5}) {
      const auto loader = make_training_loader(*set, sampler, 1, {1, 28}, with_threads(threads));

      const std::vector<Sample> rows = take(*loader, *set, 20);

      Position position{1, 28};
      std::vector<std::int64_t> expected(7);
      for (std::size_t b = 0; b < 20; ++b) {
        sampler.indices(position, 1, static_cast<std::int64_t>(b % 2), expected);
        for (std::size_t row = 0; row < 7; ++row)
          ASSERT_EQ(rows[7 * b + row], samples[static_cast<std::size_t>(expected[row])])
              << threads << " threads";
        if (b % 2 == 1) position = sampler.after(position);
      }
    }
  }
}

/// A batch large enough to be cut into parts for the threads.
TEST_F(ClickLoader, ThreadsShareALargeBatch) {
  std::string text;
  for (int copy = 0; copy < 40; ++copy) text += test::criteo_text(0, 240);
  test::save_text(folder.path("large"), text);
  const auto large = test::open_criteo(folder.path("large"));
  const Sampler sampler(3, {.samples = 9600, .workers = 1, .batch = 9000});
  const auto alone = take(*make_training_loader(*large, sampler, 0, {}, with_threads(1)), *large, 2);

  const auto shared = take(*make_training_loader(*large, sampler, 0, {}, with_threads(3)), *large, 2);

  EXPECT_EQ(shared, alone);
}

TEST_F(ClickLoader, InTheOrderOfTheFileAStepIsTheNextGlobalBatch) {
  for (const auto& set : data) {
    const std::vector<Sample> samples = test::read_all(*set);
    for (const std::int64_t workers : {1, 2, 4}) {
      const Sampler sampler(
          3, {.samples = 240, .workers = workers, .batch = 40 / workers, .order = SampleOrder::file});
      std::vector<std::vector<Sample>> shares;
      for (std::int64_t worker = 0; worker < workers; ++worker)
        shares.push_back(
            take(*make_training_loader(*set, sampler, worker, {0, 80}, with_threads(2)), *set, 8));

      std::size_t expected = 80;  // resumed there; two epochs meet at 240
      for (std::size_t step = 0; step < 8; ++step) {
        for (const auto& share : shares) {
          const std::size_t rows = 40 / shares.size();
          for (std::size_t row = 0; row < rows; ++row)
            ASSERT_EQ(share[step * rows + row], samples[expected++ % 240]) << workers << " workers";
        }
      }
    }
  }
}

TEST_F(ClickLoader, WorkersWithFilesOfTheirOwnTakeEqualSteps) {
  std::filesystem::create_directory(folder.path("parts"));
  test::save_text(folder.path("parts/0"), test::criteo_text(0, 100));
  test::save_text(folder.path("parts/1"), test::criteo_text(100, 110));
  const auto parts = test::open_criteo(folder.path("parts"));
  const std::vector<Sample> samples = test::read_all(*parts);
  const Sharding sharding = assign_shards(
      {.samples = 110, .workers = 2, .batch = 8, .order = SampleOrder::file}, *parts, ShardBy::files);
  const Sampler sampler(3, sharding);

  ASSERT_EQ(sharding.steps_per_epoch(), 13);
  const auto rows = take(*make_training_loader(*parts, sampler, 1, {}, with_threads(2)), *parts, 13);

  for (std::size_t row = 0; row < rows.size(); ++row) ASSERT_EQ(rows[row], samples[100 + row % 10]);
  EXPECT_THROW(assign_shards({.samples = 110, .workers = 3, .batch = 8}, *parts, ShardBy::files), UserError);
  EXPECT_EQ(assign_shards({.samples = 110, .workers = 3, .batch = 8}, *parts, ShardBy::samples).shares.size(),
            0U);
}

TEST_F(ClickLoader, ValidationReadsEverySampleOnceAndPadsWithEmptyBags) {
  for (const auto& set : data) {
    const std::vector<Sample> samples = test::read_all(*set);
    for (const std::int64_t workers : {1, 3, 7}) {
      std::vector<Sample> seen;
      for (std::int64_t worker = 0; worker < workers; ++worker) {
        const auto loader =
            make_validation_loader(*set, validation_shard(240, workers, worker), 50, with_threads(2));
        for (const Batch* batch = &loader->next(); batch->valid > 0; batch = &loader->next()) {
          for (std::size_t row = 0; row < 50; ++row) {
            const Sample sample = row_of(*batch, row, *set);
            if (static_cast<std::int64_t>(row) < batch->valid) {
              seen.push_back(sample);
            } else {
              ASSERT_TRUE(sample.ids.empty());
              ASSERT_EQ(sample.label, 0);
              ASSERT_TRUE(std::ranges::all_of(sample.dense, [](float value) { return value == 0.0F; }));
            }
          }
        }
      }
      EXPECT_EQ(seen, samples) << workers << " workers";
    }
  }
}

TEST_F(ClickLoader, AnEmptyShareIsABatchOfEmptyBags) {
  const auto loader = make_validation_loader(*data[0], {5, 5}, 8, with_threads(1));

  const Batch& batch = loader->next();

  EXPECT_EQ(batch.valid, 0);
  EXPECT_EQ(batch.bags.ends.size(), 8U * 26U);
  EXPECT_EQ(batch.bags.ends.back(), 0);
}

TEST_F(ClickLoader, ABadLineEndsTheLoaderWithItsPlace) {
  test::save_text(folder.path("bad"), test::criteo_text(0, 150) + "1\n" + test::criteo_text(151, 240));
  const auto bad = test::open_criteo(folder.path("bad"));
  const Sampler sampler(3, {.samples = 240, .workers = 1, .batch = 40, .order = SampleOrder::file});
  const auto loader = make_training_loader(*bad, sampler, 0, {}, with_threads(2));

  for (int good = 0; good < 3; ++good) loader->next();

  try {
    loader->next();
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("bad:151: has 1 column"), std::string::npos) << error.what();
  }
}

TEST_F(ClickLoader, CannotMixSamplesWithBags) {
  const Sampler sampler(3, {.samples = 240, .workers = 1, .batch = 40});
  LoaderOptions options = with_threads(1);
  options.mixup = 0.2;

  EXPECT_THROW(make_training_loader(*data[0], sampler, 0, {}, options), InternalError);
}

}  // namespace
}  // namespace flotilla
