// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/within.hpp"
#include "tests/train/counting_sink.hpp"
#include "tests/train/training_run.hpp"

// The training step on 1, 2 and 4 workers, in process.

namespace flotilla {
namespace {

using test::CountingSink;
using test::same_on_all;
using test::Texts;
using test::TrainingRun;
using test::operator+;

/// A run of an MLP on random data, with what a deck may add.
struct TestRun : test::ShippedMlpRun {
  explicit TestRun(const Texts& more, trace::Sink* communication = nullptr)
      : ShippedMlpRun(Texts{"train.global_batch_size=32"} + more, communication) {}
};

const Texts several_buckets = {"strategy.bucket_mb=0.02", "strategy.last_bucket_mb=0.001"};

TEST(Trainer, AllocatesNothingInAStep) {
  for (const auto& more : {Texts{}, several_buckets, several_buckets + Texts{"strategy.all_reduce=mpi"},
                           several_buckets + Texts{"strategy.all_reduce=mpi", "strategy.wire=float16"},
                           several_buckets + Texts{"strategy.all_reduce=hierarchical",
                                                   "strategy.ranks_per_group=1", "strategy.wire=bfloat16"}}) {
    CountingSink communication;
    TestRun run(more, &communication);
    for (int i = 0; i < 3; ++i) run.step();

    const std::int64_t before = test::allocations_of_this_thread();
    const std::int64_t beside_before = communication.allocations();
    for (int i = 0; i < 20; ++i) run.step();

    EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
    EXPECT_EQ(communication.allocations() - beside_before, 0);
    EXPECT_EQ(communication.spans() > 0, run.parts.sync.communication != nullptr);
    EXPECT_EQ(run.parts.sync.communication != nullptr, !more.empty() && run.world.size() > 1);
  }
}

TEST(Trainer, LeavesTheSameParametersOnEveryWorker) {
  TestRun run(several_buckets);
  for (int i = 0; i < 10; ++i) run.step();

  EXPECT_TRUE(same_on_all(run.world, run.parameters()));
}

TEST(Trainer, RoundsGradientsOnAHalfWireButNoSums) {
  const auto mpi = several_buckets + Texts{"strategy.all_reduce=mpi"};
  TestRun whole(mpi);
  TestRun half(mpi + Texts{"strategy.wire=bfloat16", "strategy.communicators=2"});

  const StepOutcome expected = whole.step();
  const StepOutcome outcome = half.step();

  // 32 samples and their losses: bfloat16 would round the sum of these to three digits.
  EXPECT_TRUE(test::within(outcome.loss, expected.loss, 1e-6));
  EXPECT_EQ(outcome.accuracy_top1, expected.accuracy_top1);
  EXPECT_TRUE(same_on_all(half.world, half.parameters()));
  EXPECT_EQ(half.parameters() != whole.parameters(), half.world.size() > 1);
}

TEST(Trainer, ReportsTheMeanOverAllWorkersOfTheStep) {
  TestRun run({});

  const StepOutcome outcome = run.step();

  // Random labels of two classes and small weights: the first loss is near ln 2, and the same on every rank.
  EXPECT_TRUE(test::within(outcome.loss, std::log(2.0), 0.2));
  EXPECT_EQ(outcome.accuracy_top5, 1.0);
  EXPECT_TRUE(same_on_all(run.world, std::vector{outcome.loss}));
}

TEST(Trainer, ClipsTheNormOfTheAveragedGradient) {
  // One step of SGD with rate 1 moves the parameters by the gradient: its norm is the limit, on any number of
  // workers.
  TestRun run({"schedule.learning_rate=1", "train.gradient_clip_norm=0.01"});
  const std::vector<float> before = run.parameters();

  run.step();

  const std::vector<float> after = run.parameters();
  double squares = 0.0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double moved = static_cast<double>(after[i]) - static_cast<double>(before[i]);
    squares += moved * moved;
  }
  EXPECT_TRUE(test::within(std::sqrt(squares), 0.01, 1e-4));
}

TEST(Trainer, MovesAsOneWorkerDoes) {
  TestRun run({"schedule.learning_rate=0.5", "optimizer.kind=momentum", "optimizer.momentum=0.9"});
  double sum_of_losses = 0.0;
  for (int i = 0; i < 20; ++i) sum_of_losses += run.step().loss;

  // Every rank count sees the same batches: what one worker gives is computed here, on rank 0's own.
  TrainingRun single(run.world.split(run.world.rank()), run.deck.config.resolved_text, {});
  double expected = 0.0;
  for (int i = 0; i < 20; ++i) expected += single.step().loss;

  EXPECT_TRUE(test::within(sum_of_losses, expected, 20 * 32 * 20 * std::pow(2.0, -24)));
}

}  // namespace
}  // namespace flotilla
