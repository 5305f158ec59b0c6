// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/within.hpp"
#include "tests/train/counting_sink.hpp"
#include "tests/train/training_run.hpp"

// Training in half precision on the reference device, in process, on 1, 2 and 4 workers.

namespace flotilla {
namespace {

using test::CountingSink;
using test::resnet_deck;
using test::same_on_all;
using test::Texts;
using test::TrainingRun;
using test::operator+;

const Texts float16 = {"device.kind=reference", "device.precision=float16"};
const Texts mlp = {"model.widths=[16]", "data.train.samples=32", "train.global_batch_size=32",
                   "schedule.learning_rate=0.02", "optimizer.kind=adam"};
/// No gradient of the first layers is below 2¹⁶ at the first of these scales.
const Texts overflowing = {"device.loss_scale.initial=1e12", "device.loss_scale.backoff=0.001",
                           "device.loss_scale.backoff_every=2"};

struct TestRun : test::ShippedMlpRun {
  explicit TestRun(const Texts& more) : ShippedMlpRun(mlp + float16 + more) {}
  const LossScale& scale() const { return parts.model.loss_scale; }
};

TEST(MixedPrecision, LeavesEverythingAloneInAStepThatOverflows) {
  TestRun run(overflowing);
  const std::vector<float> before = run.parameters();

  const StepOutcome outcome = run.step();

  EXPECT_TRUE(outcome.skipped);
  EXPECT_TRUE(outcome.skipped_by_all);
  EXPECT_FALSE(outcome.unrecoverable);
  EXPECT_TRUE(test::within(outcome.loss, std::log(2.0), 0.5));
  EXPECT_EQ(run.parameters(), before);
  EXPECT_EQ(run.parts.model.optimizer->steps(), 0);
  for (const OptimizerSlot& slot : run.parts.model.optimizer->slots())
    EXPECT_EQ(run.values(slot.values), std::vector<float>(slot.values.size(), 0.0F)) << slot.name;
  EXPECT_EQ(run.scale().skipped(), 1);
  EXPECT_EQ(run.scale().scale(), 1e12F);
}

TEST(MixedPrecision, SkipsBacksOffAndTrains) {
  TestRun run(overflowing);
  double first_losses = 0.0;
  double last_losses = 0.0;

  for (int i = 0; i < 100; ++i) {
    const double loss = run.step().loss;
    if (i < 8) first_losses += loss / 8.0;
    if (i >= 92) last_losses += loss / 8.0;
  }

  EXPECT_GE(run.scale().skipped(), 4);
  EXPECT_LT(run.scale().skipped(), 20);
  EXPECT_LT(run.scale().scale(), 1e7F);
  EXPECT_EQ(run.parts.model.optimizer->steps(), 100 - run.scale().skipped());
  EXPECT_LT(last_losses, 0.5 * first_losses);
  EXPECT_TRUE(same_on_all(run.world, run.parameters()));
  const LossScale::State state = run.scale().state();
  EXPECT_TRUE(same_on_all(run.world, std::vector<double>(state.begin(), state.end())));
}

TEST(MixedPrecision, LeavesRunningStatisticsAloneInAStepThatOverflows) {
  TrainingRun run(mpi::Communicator::world(), resnet_deck,
                  Texts{"data.shape=[3, 16, 16]", "train.global_batch_size=8", "data.train.samples=8"} +
                      float16 + overflowing);
  const std::vector<float> before = run.statistics();

  EXPECT_TRUE(run.step().skipped);

  EXPECT_EQ(run.statistics(), before);
}

TEST(MixedPrecision, OneOverflowingWorkerMakesAllSkip) {
  // The scale of one worker alone is such that it overflows: what the others got cannot save it.
  TestRun run({});
  run.step();
  if (run.world.size() == 1) return;
  if (run.world.rank() == 1) run.parts.model.loss_scale.set_state({1e30, 0.0, 0.0, 0.0});
  const std::vector<float> before = run.parameters();

  EXPECT_TRUE(run.step().skipped);

  EXPECT_EQ(run.parameters(), before);
}

TEST(MixedPrecision, TheUpdateDoesNotDependOnTheScale) {
  for (const std::string clip : {"0", "0.001"}) {
    const Texts more = {"device.loss_scale.kind=static", "optimizer.kind=momentum",
                        "train.gradient_clip_norm=" + clip};
    TestRun one(more + Texts{"device.loss_scale.value=1024"});
    TestRun other(more + Texts{"device.loss_scale.value=2048"});
    const std::vector<float> before = one.parameters();
    for (int i = 0; i < 5; ++i) {
      ASSERT_FALSE(one.step().skipped);
      ASSERT_FALSE(other.step().skipped);
    }

    const std::vector<float> a = one.parameters();
    const std::vector<float> b = other.parameters();
    double difference = 0.0;
    double moved = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      difference += std::pow(double{a[i]} - double{b[i]}, 2);
      moved += std::pow(double{a[i]} - double{before[i]}, 2);
    }
    // Twice a half is a half, but for the few below 2⁻¹⁴, which lose bits.
    EXPECT_GT(moved, 0.0);
    EXPECT_LT(std::sqrt(difference / moved), std::ldexp(1.0, -10)) << clip;
  }
}

TEST(MixedPrecision, WorkersMoveAsOneDoes) {
  const Texts more = {"run.reproducible=true", "run.virtual_shards=4", "device.loss_scale.initial=3e6",
                      "device.loss_scale.growth_every=7", "device.loss_scale.backoff=0.5"};
  TestRun run(more);
  for (int i = 0; i < 40; ++i) run.step();

  // What one worker gives is computed here, on each rank's own.
  TrainingRun single(run.world.split(run.world.rank()), run.deck.config.resolved_text, {});
  for (int i = 0; i < 40; ++i) single.step();

  EXPECT_EQ(run.parameters(), single.parameters());
  EXPECT_EQ(run.scale().numbers(), single.parts.model.loss_scale.numbers());
  EXPECT_GT(run.scale().skipped(), 0);
  EXPECT_LT(run.scale().skipped(), 20);
}

TEST(MixedPrecision, MicroStepsShareOneScaleAndOneVerdict) {
  const Texts four = {"train.accumulate_steps=4"};
  TestRun run(four + overflowing);

  EXPECT_TRUE(run.step().skipped);
  EXPECT_EQ(run.scale().skipped(), 1);
  for (int i = 0; i < 20; ++i) run.step();

  EXPECT_LT(run.scale().skipped(), 12);
  EXPECT_FALSE(run.step().skipped);
}

TEST(MixedPrecision, EachWorkerOfLocalSgdHasAScaleOfItsOwn) {
  TestRun run({"strategy.kind=local-sgd", "strategy.period=4"});
  run.step();
  const std::vector<float> before = run.parameters();
  const bool overflows = run.world.rank() == run.world.size() - 1;
  if (overflows) run.parts.model.loss_scale.set_state({1e30, 0.0, 0.0, 0.0});

  const StepOutcome outcome = run.step();

  EXPECT_EQ(outcome.skipped, overflows);
  EXPECT_FALSE(outcome.skipped_by_all);
  EXPECT_EQ(run.parameters() == before, overflows);
  EXPECT_EQ(run.scale().skipped(), overflows ? 1 : 0);
  EXPECT_TRUE(std::isfinite(outcome.loss));
  run.step();
  run.step();  // the averaging
  EXPECT_TRUE(same_on_all(run.world, run.parameters()));
}

TEST(MixedPrecision, AStaticScaleThatOverflowsForEverIsHopeless) {
  TestRun run({"device.loss_scale.kind=static", "device.loss_scale.value=1e12"});
  for (int i = 0; i < 99; ++i) EXPECT_FALSE(run.step().unrecoverable) << i;

  EXPECT_TRUE(run.step().unrecoverable);
}

TEST(MixedPrecision, ALossThatIsNotFiniteIsHopelessAtTheLeastScale) {
  TestRun run({"device.loss_scale.initial=1.2", "device.loss_scale.backoff_every=1"});
  const DeviceSpan<float> parameters = run.parts.model.weights.parameters;
  run.parts.machine.device->flat().fill(parameters, 1e30F);  // infinite in float16

  const StepOutcome above = run.step();
  const StepOutcome least = run.step();

  EXPECT_FALSE(std::isfinite(above.loss));
  EXPECT_TRUE(above.skipped);
  EXPECT_FALSE(above.unrecoverable);
  EXPECT_TRUE(least.unrecoverable);
}

TEST(MixedPrecision, NobodyLooksInBfloat16) {
  TestRun run({"device.precision=bfloat16"});

  const StepOutcome outcome = run.step();

  EXPECT_FALSE(outcome.skipped);
  EXPECT_EQ(run.scale().scale(), 1.0F);
}

TEST(MixedPrecision, AllocatesNothingInAStep) {
  TestRun run(overflowing);
  for (int i = 0; i < 12; ++i) run.step();  // skipped ones and others
  ASSERT_GT(run.parts.model.optimizer->steps(), 0);

  const std::int64_t before = test::allocations_of_this_thread();
  for (int i = 0; i < 5; ++i) run.step();

  EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
}

}  // namespace
}  // namespace flotilla
