// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/data/loader.hpp"

// Samples that cannot be read, and batches that several threads share.

namespace flotilla {
namespace {

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

struct Row {
  float value = 0.0F;
  float variation = 0.0F;
  std::int32_t label = 0;
  friend bool operator==(const Row&, const Row&) = default;
};

struct Epoch {
  std::vector<Row> rows;
  std::int64_t replaced = 0;
  std::int64_t first_replaced = -1;
};

Epoch take(Loader& loader, std::int64_t batches) {
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
  const Epoch expected = take(*make_training_loader(data, alone, 0, {}, replacing(0)), 4);

  for (const std::int64_t threads : {1, 2, 5}) {
    const Epoch epoch = take(*make_training_loader(data, alone, 0, {}, replacing(threads)), 4);
    std::vector<Epoch> parts;
    for (std::int64_t worker = 0; worker < 3; ++worker)
      parts.push_back(take(*make_training_loader(data, shared, worker, {}, replacing(threads)), 4));

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

  const Epoch epoch = take(*make_training_loader(data, sampler, 0, {}, replacing(2)), 4);

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
    try {
      make_validation_loader(data, {0, 32}, 32, {.threads = 8, .prefetch = 1, .sink = {}})->next();
      FAIL() << "nothing was thrown";
    } catch (const BadSample& error) {
      EXPECT_STREQ(error.what(), "sample 5 is bad");
    }
  }
}

TEST(Loader, DeliversTheSameWhereThreadsShareABatch) {
  const Flawed data(50, {});
  const Sampler sampler(3, {.samples = 50, .workers = 1, .batch = 10, .micro_steps = 2});
  const Epoch expected = take(*make_training_loader(data, sampler, 0, {}, replacing(0)), 60);
  for (const std::int64_t threads : {1, 2, 3, 8}) {
    EXPECT_EQ(take(*make_training_loader(data, sampler, 0, {}, replacing(threads)), 60).rows, expected.rows)
        << threads << " threads";
  }
}

}  // namespace
}  // namespace flotilla
