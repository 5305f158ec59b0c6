// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/loader.hpp"
#include "tests/support/messages.hpp"

namespace flotilla {
namespace {

/// Sample i is {i, 0, low bits of the variation}, its label is i mod 7.
class CountingDataset final : public Dataset {
 public:
  explicit CountingDataset(std::int64_t size, std::int64_t bad = -1) : bad_(bad) {
    set_facts({.size = size, .shape = {3}, .description = "counting"});
  }
  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    ++reads;
    if (i == bad_) throw UserError(cat("sample ", i, " is bad"));
    // Uneven times, so that threads overtake each other.
    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
    to[0] = static_cast<float>(i);
    to[1] = 0.0F;
    to[2] = static_cast<float>(variation >> 40);
    return static_cast<std::int32_t>(i % 7);
  }
  mutable std::atomic<std::int64_t> reads{0};

 private:
  std::int64_t bad_;
};

struct Row {
  float value = 0.0F;
  float variation = 0.0F;
  std::int32_t label = 0;
  friend bool operator==(const Row&, const Row&) = default;
};

std::vector<Row> take(Loader& loader, int batches) {
  std::vector<Row> rows;
  for (int b = 0; b < batches; ++b) {
    const Batch& batch = loader.next();
    for (std::size_t row = 0; row < batch.labels.size(); ++row) {
      rows.push_back({batch.images[3 * row], batch.images[3 * row + 2], batch.labels[row]});
    }
  }
  return rows;
}

const std::vector<LoaderOptions> all_options = {{.threads = 0, .prefetch = 4, .sink = {}},
                                                {.threads = 1, .prefetch = 1, .sink = {}},
                                                {.threads = 2, .prefetch = 3, .sink = {}},
                                                {.threads = 5, .prefetch = 2, .sink = {}}};

TEST(TrainingLoader, DeliversTheSamplersBatchesInOrder) {
  const CountingDataset data(50);
  const Sampler sampler(3, {.samples = 50, .workers = 2, .batch = 4, .micro_steps = 3});
  for (const LoaderOptions& options : all_options) {
    const auto loader = make_training_loader(data, sampler, 1, {2, 24}, options);
    Position position{2, 24};
    for (int step = 0; step < 8; ++step, position = sampler.after(position)) {
      for (std::int64_t micro = 0; micro < 3; ++micro) {
        std::vector<std::int64_t> expected(4);
        sampler.indices(position, 1, micro, expected);

        const Batch& batch = loader->next();

        ASSERT_EQ(batch.valid, 4);
        for (std::size_t row = 0; row < 4; ++row) {
          ASSERT_EQ(batch.images[3 * row], static_cast<float>(expected[row]))
              << options.threads << " threads";
          ASSERT_EQ(batch.labels[row], expected[row] % 7);
        }
      }
    }
  }
}

TEST(TrainingLoader, DeliversTheSameWithAnyNumberOfThreads) {
  const CountingDataset data(101);
  const Sampler sampler(3, {.samples = 101, .workers = 1, .batch = 8});
  const auto reference = take(*make_training_loader(data, sampler, 0, {}, all_options[0]), 100);

  for (const LoaderOptions& options : all_options) {
    EXPECT_EQ(take(*make_training_loader(data, sampler, 0, {}, options), 100), reference)
        << options.threads << " threads";
  }
}

TEST(TrainingLoader, VariesEachSampleWithEpochAndSampleButNotWithTheWorker) {
  const CountingDataset data(16);
  const Sampler alone(3, {.samples = 16, .workers = 1, .batch = 16});
  const Sampler shared(3, {.samples = 16, .workers = 2, .batch = 8});

  const auto both_epochs = take(*make_training_loader(data, alone, 0, {}, {}), 2);
  auto divided = take(*make_training_loader(data, shared, 0, {}, {}), 1);
  const auto second = take(*make_training_loader(data, shared, 1, {}, {}), 1);
  divided.insert(divided.end(), second.begin(), second.end());

  EXPECT_EQ(divided, std::vector<Row>(both_epochs.begin(), both_epochs.begin() + 16));
  std::set<float> variations;
  for (const Row& row : both_epochs) variations.insert(row.variation);
  EXPECT_EQ(variations.size(), 32U);
}

TEST(TrainingLoader, KeepsAsManyBatchesAsAsked) {
  const CountingDataset data(50);
  const Sampler sampler(3, {.samples = 50, .workers = 1, .batch = 4, .micro_steps = 1});
  for (LoaderOptions options : all_options) {
    options.kept = 3;
    const auto kept = make_training_loader(data, sampler, 0, {}, options);
    const auto again = make_training_loader(data, sampler, 0, {}, all_options[0]);
    for (int i = 0; i < 5; ++i) again->next();
    std::vector<Batch> batches;
    for (int i = 0; i < 8; ++i) batches.push_back(kept->next());
    // What may be overwritten is overwritten by now.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));

    for (std::size_t i = 5; i < 8; ++i) {
      const Batch& expected = again->next();
      EXPECT_TRUE(std::ranges::equal(batches[i].images, expected.images)) << options.threads;
      EXPECT_TRUE(std::ranges::equal(batches[i].labels, expected.labels)) << options.threads;
    }
  }
}

TEST(TrainingLoader, ReadsNoFurtherAheadThanAsked) {
  const CountingDataset data(1000);
  const Sampler sampler(3, {.samples = 1000, .workers = 1, .batch = 10});
  const auto loader = make_training_loader(data, sampler, 0, {}, {.threads = 2, .prefetch = 3, .sink = {}});

  for (int batch = 0; batch < 20; ++batch) {
    loader->next();
    EXPECT_LE(data.reads, (batch + 1 + 3) * 10);
  }

  EXPECT_EQ(loader->buffer_bytes(), (3 + 1) * 10 * (3 + 1) * 4);
}

TEST(Loader, StartsEveryBatchOn64BytesAndKeepsItUntilTheNextCall) {
  const CountingDataset data(40);
  const Sampler sampler(3, {.samples = 40, .workers = 1, .batch = 5});
  const auto loader = make_training_loader(data, sampler, 0, {}, {.threads = 2, .prefetch = 1, .sink = {}});
  for (int b = 0; b < 20; ++b) {
    const Batch& batch = loader->next();
    const std::vector<float> before(batch.images.begin(), batch.images.end());

    std::this_thread::sleep_for(std::chrono::milliseconds(1));

    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.images.data()) % 64, 0U);
    EXPECT_EQ(before, std::vector<float>(batch.images.begin(), batch.images.end()));
  }
}

TEST(Loader, ThrowsWhatReadingThrewAtTheBatchThatItBelongsTo) {
  const CountingDataset data(64, 20);
  for (const LoaderOptions& options : all_options) {
    const auto loader = make_validation_loader(data, {0, 64}, 8, options);

    EXPECT_EQ(loader->next().labels[0], 0);
    EXPECT_EQ(loader->next().labels[0], 8 % 7);
    EXPECT_THROW(loader->next(), UserError) << options.threads << " threads";
  }
}

TEST(Loader, StopsWhileABatchIsBeingReadAndWhileAnExceptionIsThrown) {
  const CountingDataset data(800000);
  const Sampler sampler(3, {.samples = 800000, .workers = 1, .batch = 400000});
  for (const LoaderOptions& options : all_options) {
    const auto fail = [&] {
      const std::int64_t before = data.reads;
      const auto loader = make_training_loader(data, sampler, 0, {}, options);
      while (options.threads > 0 && data.reads == before) std::this_thread::yield();
      throw UserError("elsewhere");
    };

    EXPECT_THROW(fail(), UserError);
  }

  // Finishing a batch begun would read 400000 samples each of three times, for seconds.
  EXPECT_LT(data.reads, 1000000);
}

TEST(ValidationLoader, PadsTheLastBatchWithZerosAndThenReportsTheEnd) {
  const CountingDataset data(30);
  for (const LoaderOptions& options : all_options) {
    const auto loader = make_validation_loader(data, {3, 14}, 4, options);

    std::vector<float> seen;
    for (const std::int64_t valid : {4, 4, 3}) {
      const Batch& batch = loader->next();
      ASSERT_EQ(batch.valid, valid) << options.threads << " threads";
      for (std::size_t row = 0; row < 4; ++row) seen.push_back(batch.images[3 * row]);
      EXPECT_EQ(batch.labels[3], valid == 4 ? static_cast<std::int32_t>(seen.back()) % 7 : 0);
    }

    EXPECT_EQ(seen, (std::vector<float>{3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0}));
    EXPECT_EQ(loader->next().valid, 0);
    EXPECT_EQ(loader->next().valid, 0);
    EXPECT_EQ(loader->next().images.size(), 12U);
    EXPECT_EQ(data.reads % 11, 0) << "padding was read";
  }
}

TEST(ValidationLoader, ReportsTheEndAtOnceForAnEmptyShard) {
  const CountingDataset data(30);
  for (const LoaderOptions& options : all_options) {
    const auto loader = make_validation_loader(data, {30, 30}, 4, options);

    const Batch& batch = loader->next();

    EXPECT_EQ(batch.valid, 0);
    EXPECT_EQ(batch.images.size(), 12U);
    EXPECT_EQ(batch.labels.size(), 4U);
  }
}

class SpanCounter final : public trace::Sink {
 public:
  void span(const char* name, std::int64_t begin_ns, std::int64_t end_ns) override {
    const std::lock_guard lock(mutex_);
    names.insert(name);
    count += end_ns >= begin_ns ? 1 : 0;
  }
  std::set<std::string> names;
  int count = 0;

 private:
  std::mutex mutex_;
};

TEST(Loader, RecordsWhatItsThreadsDo) {
  const CountingDataset data(30);
  SpanCounter sink;
  {
    const auto loader = make_validation_loader(
        data, {0, 30}, 10, {.threads = 2, .prefetch = 2, .sink = [&](int) { return &sink; }});
    while (loader->next().valid > 0) {
    }
  }

  EXPECT_EQ(sink.names, std::set<std::string>{"read batch"});
  EXPECT_EQ(sink.count, 3);
}

// Samples that cannot be read, and batches that several threads share.

/// Sample i is `values` times i, its label i mod 7. Some are bad.
class Flawed final : public Dataset {
 public:
  Flawed(std::int64_t size, std::set<std::int64_t> bad, std::int64_t values = 70000) : bad_(std::move(bad)) {
    set_facts({.size = size, .shape = {values}, .description = "flawed"});
  }
  std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const override {
    if (bad_.contains(i)) throw BadSample(cat("sample ", i, " is bad"));
    std::fill(to.begin(), to.end(), static_cast<float>(i));
    to[1] = static_cast<float>(variation >> 40);
    return static_cast<std::int32_t>(i % 7);
  }

 private:
  std::set<std::int64_t> bad_;
};

struct Epoch {
  std::vector<Row> rows;
  std::int64_t replaced = 0;
  std::int64_t first_replaced = -1;
};

Epoch take_epoch(Loader& loader, std::int64_t batches) {
  Epoch epoch;
  for (std::int64_t b = 0; b < batches; ++b) {
    const Batch& batch = loader.next();
    const std::size_t size = batch.images.size() / batch.labels.size();
    for (std::size_t row = 0; row < batch.labels.size(); ++row)
      epoch.rows.push_back({batch.images[size * row], batch.images[size * row + 1], batch.labels[row]});
    if (batch.replaced > 0)
      epoch.first_replaced =
          epoch.replaced == 0 ? batch.first_replaced : std::min(epoch.first_replaced, batch.first_replaced);
    epoch.replaced += batch.replaced;
  }
  return epoch;
}

LoaderOptions replacing(std::int64_t threads) {
  return {.threads = threads, .prefetch = 2, .sink = {}, .replace_bad = true};
}

const std::set<std::int64_t> some_bad = {3, 17, 18, 40};

TEST(BadSamples, AreReplacedAlikeWithAnyNumberOfThreadsAndRanks) {
  const Flawed data(48, some_bad);
  const Sampler alone(3, {.samples = 48, .workers = 1, .batch = 12});
  const Sampler shared(3, {.samples = 48, .workers = 3, .batch = 4});
  const Epoch expected = take_epoch(*make_training_loader(data, alone, 0, {}, replacing(0)), 4);

  for (const std::int64_t threads : {1, 2, 5}) {
    const Epoch epoch = take_epoch(*make_training_loader(data, alone, 0, {}, replacing(threads)), 4);
    std::vector<Epoch> parts;
    for (std::int64_t worker = 0; worker < 3; ++worker)
      parts.push_back(take_epoch(*make_training_loader(data, shared, worker, {}, replacing(threads)), 4));

    EXPECT_EQ(epoch.rows, expected.rows) << threads << " threads";
    EXPECT_EQ(epoch.replaced, 4);
    EXPECT_EQ(epoch.first_replaced, 3);
    EXPECT_EQ(parts[0].replaced + parts[1].replaced + parts[2].replaced, 4);
    std::vector<Row> joined;
    for (std::size_t step = 0; step < 4; ++step) {
      for (const Epoch& part : parts)
        joined.insert(joined.end(), part.rows.begin() + static_cast<std::ptrdiff_t>(4 * step),
                      part.rows.begin() + static_cast<std::ptrdiff_t>(4 * step + 4));
    }
    EXPECT_EQ(joined, expected.rows);
  }
}

TEST(BadSamples, AreReplacedByGoodOnesWithTheirOwnLabels) {
  const Flawed data(48, some_bad);
  const Sampler sampler(3, {.samples = 48, .workers = 1, .batch = 12});

  const Epoch epoch = take_epoch(*make_training_loader(data, sampler, 0, {}, replacing(2)), 4);

  std::map<float, int> seen;
  for (const Row& row : epoch.rows) {
    EXPECT_FALSE(some_bad.contains(static_cast<std::int64_t>(row.value)));
    EXPECT_EQ(row.label, static_cast<std::int32_t>(row.value) % 7);
    ++seen[row.value];
  }
  EXPECT_GE(seen.size(), 48U - 2 * some_bad.size());
}

TEST(BadSamples, AreCountedAnewInEveryBatch) {
  const Flawed data(8, {5});
  const Sampler sampler(3, {.samples = 8, .workers = 1, .batch = 8});
  const auto loader = make_training_loader(data, sampler, 0, {}, replacing(2));

  for (int epoch = 0; epoch < 20; ++epoch) {
    const Batch& batch = loader->next();
    ASSERT_EQ(batch.replaced, 1);
    ASSERT_EQ(batch.first_replaced, 5);
  }
}

TEST(BadSamples, EndTheTrainingUnlessTheyAreToBeReplaced) {
  const Flawed data(16, {9});
  const Sampler sampler(3, {.samples = 16, .workers = 1, .batch = 16});
  for (const std::int64_t threads : {0, 1, 4}) {
    LoaderOptions options = replacing(threads);
    options.replace_bad = false;

    EXPECT_THROW(make_training_loader(data, sampler, 0, {}, options)->next(), BadSample);
  }
}

TEST(BadSamples, EndTheTrainingWhereNoneIsGood) {
  const Flawed data(2, {0, 1});
  const Sampler sampler(3, {.samples = 2, .workers = 1, .batch = 2});

  EXPECT_THROW(make_training_loader(data, sampler, 0, {}, replacing(2))->next(), BadSample);
}

TEST(BadSamples, AreNeverReplacedInValidation) {
  const Flawed data(16, {9});

  EXPECT_THROW(make_validation_loader(data, {0, 16}, 16, replacing(2))->next(), BadSample);
}

TEST(Loader, ThrowsForTheFirstOfSeveralBadRowsWhicheverThreadWasFirst) {
  const Flawed data(32, {5, 6, 20, 31});
  for (int again = 0; again < 20; ++again) {
    EXPECT_EQ(test::error_of<BadSample>([&] {
                make_validation_loader(data, {0, 32}, 32, {.threads = 8, .prefetch = 1, .sink = {}})->next();
              }),
              "sample 5 is bad");
  }
}

TEST(Loader, DeliversTheSameWhereThreadsShareABatch) {
  const Flawed data(50, {});
  const Sampler sampler(3, {.samples = 50, .workers = 1, .batch = 10, .micro_steps = 2});
  const Epoch expected = take_epoch(*make_training_loader(data, sampler, 0, {}, replacing(0)), 60);
  for (const std::int64_t threads : {1, 2, 3, 8}) {
    EXPECT_EQ(take_epoch(*make_training_loader(data, sampler, 0, {}, replacing(threads)), 60).rows,
              expected.rows)
        << threads << " threads";
  }
}

}  // namespace
}  // namespace flotilla
