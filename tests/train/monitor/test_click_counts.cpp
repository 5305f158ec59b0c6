// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/monitor/click_metrics.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/within.hpp"
#include "tests/train/clicks.hpp"
#include "tests/train/training_run.hpp"

// Counts of predictions over 1, 2 and 4 workers.

namespace flotilla {
namespace {

using test::Clicks;
using test::random_clicks;

std::span<const float> logits_of(const Clicks& clicks, std::size_t begin, std::size_t end) {
  return std::span(clicks.logits).subspan(2 * begin, 2 * (end - begin));
}
std::span<const std::int32_t> labels_of(const Clicks& clicks, std::size_t begin, std::size_t end) {
  return std::span(clicks.labels).subspan(begin, end - begin);
}

TEST(ClickCounts, OfAllWorkersAreThoseOfOneThatSawEverything) {
  const auto world = mpi::Communicator::world();
  const Clicks clicks = random_clicks(2, 1003);
  ClickCounts all;
  all.add(clicks.logits, clicks.labels);
  // Shares of different size, the last worker's empty where there are several.
  const auto workers = static_cast<std::size_t>(std::max(1, world.size() - 1));
  const auto rank = static_cast<std::size_t>(world.rank());
  const std::size_t begin = rank >= workers ? 0 : 1003 * rank / workers;
  const std::size_t end = rank >= workers ? 0 : 1003 * (rank + 1) / workers;
  ClickCounts counts;
  counts.add(logits_of(clicks, begin, end), labels_of(clicks, begin, end));

  counts.merge(world);

  EXPECT_TRUE(std::ranges::equal(counts.cells(), all.cells()));
  const Figures found = counts.metrics();
  const Figures expected = all.metrics();
  EXPECT_EQ(found.at("auc"), expected.at("auc"));
  EXPECT_EQ(found.at("auc_bound"), expected.at("auc_bound"));
  EXPECT_EQ(found.at("pr_auc"), expected.at("pr_auc"));
  EXPECT_EQ(found.at("log_loss"), expected.at("log_loss"));
  EXPECT_EQ(found.at("calibration"), expected.at("calibration"));
}

TEST(ClickCounts, OfAnEvaluationAreThoseOfItsOutputs) {
  test::ShippedMlpRun run({"train.global_batch_size=32", "data.train.samples=1003"});
  for (int i = 0; i < 10; ++i) run.step();
  Network& network = *run.parts.model.network;
  ClickCounts counts;
  Config clicks = run.parts.config;
  clicks.model.kind = "ctr-dnn";  // two outputs, taken for clicks

  const Evaluation result = evaluate(
      {network, *run.parts.data.training, {}, run.parts.model.validation_sums.span().subspan(0, loss_sums)},
      run.world, 1, clicks, [&](const Batch& batch) {
        const auto valid = static_cast<std::size_t>(batch.valid);
        const std::vector<float> logits = run.values(float_values(network.logits()));
        counts.add(std::span(logits).first(2 * valid), batch.labels.first(valid));
      });

  counts.merge(run.world);
  ASSERT_TRUE(result.figures.contains("auc"));
  EXPECT_EQ(result.figures.at("auc"), counts.metrics().at("auc"));
  EXPECT_EQ(result.figures.at("calibration"), counts.metrics().at("calibration"));
  // A float's rounding of losses of order 1, in batches of 32 at most.
  EXPECT_TRUE(test::within(result.figures.at("log_loss"), result.loss(), 32 * 6e-8));
  EXPECT_EQ(run.parts.data.training->size(), result.samples);
}

TEST(ClickLog, LooksBackOnAllSamplesAndOnTheLastBatches) {
  const auto world = mpi::Communicator::world();
  constexpr std::size_t batch = 50;
  constexpr std::size_t window = 3;
  ClickLog log(batch, window);
  // Batches of different size, each worker's its own; every worker knows those of all.
  const auto begin_of = [](std::size_t worker, std::size_t step) { return (worker * 8 + step) * batch; };
  const auto end_of = [&](std::size_t worker, std::size_t step) {
    return begin_of(worker, step) + batch - (worker + step) % 4;
  };
  const Clicks clicks = random_clicks(9, 4 * 8 * batch);

  for (std::size_t step = 0; step < 8; ++step) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const std::size_t begin = begin_of(rank, step);
    const std::size_t end = end_of(rank, step);
    log.add(logits_of(clicks, begin, end), labels_of(clicks, begin, end));
    if (step == 3) log.clear();

    ClickCounts all;
    ClickCounts recent;
    ClickCounts own;
    for (std::size_t worker = 0; worker < static_cast<std::size_t>(world.size()); ++worker)
      for (std::size_t past = 0; past <= step; ++past) {
        const std::size_t from = begin_of(worker, past);
        const std::size_t to = end_of(worker, past);
        const bool counts = step < 3 || past > 3;
        if (counts) all.add(logits_of(clicks, from, to), labels_of(clicks, from, to));
        if (counts && worker == rank) own.add(logits_of(clicks, from, to), labels_of(clicks, from, to));
        if (past + window > step) recent.add(logits_of(clicks, from, to), labels_of(clicks, from, to));
      }
    EXPECT_EQ(log.areas(&world).auc, auc_of(all.cells())) << step;
    EXPECT_EQ(log.areas(&world).batch_auc, auc_of(recent.cells())) << step;
    EXPECT_EQ(log.areas(nullptr).auc, auc_of(own.cells())) << step;
  }
}

TEST(ClickLog, AllocatesNothing) {
  const auto world = mpi::Communicator::world();
  ClickLog log(100);
  const Clicks clicks = random_clicks(4, 100);
  log.areas(&world);

  const std::int64_t before = test::allocations_of_this_thread();
  for (int i = 0; i < 30; ++i) log.add(clicks.logits, clicks.labels);
  log.areas(nullptr);
  log.clear();

  EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
}

TEST(ClickLog, RefusesABatchThatIsTooLarge) {
  ClickLog log(99);
  const Clicks clicks = random_clicks(4, 100);

  EXPECT_THROW(log.add(clicks.logits, clicks.labels), InternalError);
}

}  // namespace
}  // namespace flotilla
