// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "src/train/evaluation.hpp"
#include "src/train/training_loaders.hpp"
#include "tests/support/within.hpp"
#include "tests/train/counting_sink.hpp"
#include "tests/train/plain_values.hpp"
#include "tests/train/rounding_growth.hpp"

// Training on a device whose memory the host cannot reach, on 1, 2 and 4 workers: the reference device. It
// must give what the processor gives, but for rounding, whatever way the sums take.

namespace flotilla::test {
namespace {

const Texts far = {"device.kind=reference"};
const Texts near = {"device.kind=cpu"};
const Texts adam = {"optimizer.kind=adam", "schedule.learning_rate=0.01"};
const Texts several_buckets = {"strategy.bucket_mb=0.0005", "strategy.last_bucket_mb=0.0001"};

/// Steps of float32 differ by rounding, which training amplifies a little.
constexpr double rounding = 1e-5;

/// The consensus after some steps, as files hold it.
std::vector<float> train(const std::string& deck, const Texts& more, int steps) {
  TrainingRun run(mpi::Communicator::world(), deck, more);
  for (int i = 0; i < steps; ++i) run.step();
  return plain_values(run, run.parts.sync.strategy->consensus());
}

std::vector<float> train_mlp(const Texts& more, int steps) {
  return train(small_mlp_deck, adam + more, steps);
}

/// Keys that give the same bits on two workers, where a sum has only one order.
const std::vector<Texts> ways = {{"strategy.all_reduce=auto"},
                                 {"strategy.all_reduce=mpi"},
                                 {"strategy.all_reduce=shared-memory", "strategy.overlap=false"},
                                 {"strategy.all_reduce=hierarchical", "strategy.ranks_per_group=1"},
                                 {"strategy.all_reduce=hierarchical", "strategy.ranks_per_group=2"},
                                 {"strategy.all_reduce=shared-memory", "strategy.communicators=2"},
                                 {"strategy.all_reduce=mpi", "strategy.communicators=3"}};

TEST(FarMemory, GivesWhatTheProcessorGivesWhateverWaySumsTake) {
  const std::vector<float> expected = train_mlp(near, 20);
  const std::vector<float> in_one_piece = train_mlp(far, 20);
  EXPECT_TRUE(test::within(relative_difference(in_one_piece, expected), 0.0, rounding));

  for (const Texts& way : ways) {
    if (mpi::Communicator::world().size() == 1 && way.back() == "strategy.ranks_per_group=2") continue;
    const std::vector<float> values = train_mlp(far + several_buckets + way, 20);

    EXPECT_TRUE(test::within(relative_difference(values, expected), 0.0, rounding)) << way.front();
    if (mpi::Communicator::world().size() <= 2) {
      EXPECT_EQ(values, in_one_piece) << way.front();
    }
  }
}

TEST(FarMemory, KeepsSumsExactOnAHalfWire) {
  TrainingRun half(mpi::Communicator::world(), small_mlp_deck,
                   adam + far + several_buckets + Texts{"strategy.all_reduce=mpi", "strategy.wire=bfloat16"});
  TrainingRun whole(mpi::Communicator::world(), small_mlp_deck, adam + near);

  EXPECT_TRUE(test::within(half.step().loss, whole.step().loss, 1e-6));
  EXPECT_TRUE(test::within(relative_difference(plain_values(half, half.parts.model.weights),
                                               plain_values(whole, whole.parts.model.weights)),
                           0.0, 1e-2));
}

TEST(FarMemory, HasTheSameBitsOnAnyNumberOfWorkersIfAsked) {
  const Texts reproducible = {"run.reproducible=true", "train.gradient_clip_norm=0.1"};
  const mpi::Communicator world = mpi::Communicator::world();
  TrainingRun all(world.collective_clone(), small_mlp_deck, adam + far + several_buckets + reproducible);
  TrainingRun alone(world.split(world.rank()), small_mlp_deck, adam + far + reproducible);
  for (int step = 0; step < 5; ++step) EXPECT_EQ(all.step().loss, alone.step().loss);

  EXPECT_EQ(all.parameters(), alone.parameters());
  world.barrier();
}

TEST(FarMemory, AllocatesNothingInAStep) {
  for (const Texts& more : {Texts{}, several_buckets + Texts{"strategy.all_reduce=mpi"},
                            several_buckets + Texts{"strategy.all_reduce=shared-memory"},
                            Texts{"strategy.kind=local-sgd", "strategy.period=2"}}) {
    CountingSink communication;
    TrainingRun run(mpi::Communicator::world(), small_mlp_deck, adam + far + more, &communication);
    for (int i = 0; i < 4; ++i) run.step();

    const std::int64_t before = allocations_of_this_thread();
    const std::int64_t beside_before = communication.allocations();
    for (int i = 0; i < 10; ++i) run.step();

    EXPECT_EQ(allocations_of_this_thread() - before, 0) << more.size();
    EXPECT_EQ(communication.allocations() - beside_before, 0);
  }
}

/// A way to average, and how far a device may come apart from another.
struct Averaging {
  Texts deck;
  double tolerance = rounding;
  int workers = 1;  ///< Minimum number of workers
};

const std::vector<Averaging> averagings = {
    {{"strategy.period=1"}},
    {{"strategy.period=3", "strategy.momentum=average"}},
    {{"strategy.period=4", "strategy.wire=float16", "strategy.all_reduce=mpi"}, 1e-3},
    {{"strategy.period=2", "strategy.begin_step=4", "strategy.before_begin=all-reduce"}},
    {{"strategy.period=3", "strategy.outer.kind=nesterov", "strategy.outer.learning_rate=0.7",
      "strategy.outer.momentum=0.9"}},
    {{"strategy.period=3", "strategy.group_all_reduce=true", "strategy.ranks_per_group=2"}, rounding, 4}};

TEST(FarMemory, AveragesModelsAsTheProcessorDoes) {
  for (const Averaging& averaging : averagings) {
    if (mpi::Communicator::world().size() < averaging.workers) continue;
    const Texts local = averaging.deck + Texts{"strategy.kind=local-sgd"};

    const std::vector<float> values = train_mlp(far + local, 10);

    EXPECT_TRUE(
        test::within(relative_difference(values, train_mlp(near + local, 10)), 0.0, averaging.tolerance))
        << averaging.deck.back();
  }
}

TEST(FarMemory, OfWorkersThatMeetIsComparedToTheBit) {
  const mpi::Communicator world = mpi::Communicator::world();
  TrainingRun run(world.collective_clone(), small_mlp_deck, adam + far);
  run.step();
  AgreementCheck check(world, *run.parts.model.network, state_arrays(run.parts.model.weights, nullptr));
  EXPECT_FALSE(check.compare(run.parts.sync.strategy->replicated()).has_value());
  if (world.size() == 1) return;

  const DeviceSpan<float> one = run.parts.model.weights.parameters.subspan(0, 1);
  const float other = run.values(one)[0] + 1.0F;
  if (world.rank() == 1) run.parts.machine.device->memory().upload({&other, 1}, one);
  const auto found = check.compare(run.parts.sync.strategy->replicated());

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->tensor, "fc1.weight");
  EXPECT_EQ(found->differing, 1);
}

TEST(FarMemory, AddsUpMicroSteps) {
  const Texts accumulate = {"train.accumulate_steps=2", "train.gradient_clip_norm=0.5"};

  EXPECT_TRUE(test::within(
      relative_difference(train_mlp(far + accumulate, 10), train_mlp(near + accumulate, 10)), 0.0, rounding));
}

/// A network so small that plain loops in double take a second; trained for one step, since batch norm of so
/// few values amplifies rounding.
const Texts tiny_resnet = {"data.shape=[3,8,8]", "data.train.samples=16", "train.global_batch_size=8",
                           "schedule.learning_rate=1e-4"};

TEST(FarMemory, SynchronisesBatchNormAndComputesAgain) {
  if (mpi::Communicator::world().size() > 2) GTEST_SKIP() << "as on two workers, but slow";
  const Texts deck = tiny_resnet + Texts{"model.batch_norm=synchronised", "model.recompute=blocks"};

  EXPECT_TRUE(
      test::within(relative_difference(train(resnet_deck, far + deck, 1), train(resnet_deck, near + deck, 1)),
                   0.0, rounding));
}

TEST(FarMemory, AveragesAndEstimatesStatisticsAndEvaluates) {
  std::vector<std::vector<float>> models;
  std::vector<double> losses;
  for (const Texts& device : {near, far}) {
    TrainingRun run(mpi::Communicator::world(), smooth_deck,
                    device + Texts{"strategy.kind=local-sgd", "strategy.period=2"});
    run.step();
    const Model model = run.parts.sync.strategy->consensus();
    models.push_back(plain_values(run, model));
    re_estimate_statistics(run.parts, model, *run.loader, 1);
    models.push_back(plain_values(run, model));
    run.parts.model.evaluate_with(model);
    losses.push_back(evaluate({run.parts.model.evaluator(),
                               *run.parts.data.training,
                               {},
                               run.parts.model.validation_sums.span().subspan(0, loss_sums)},
                              run.world, 1, run.parts.config, [](const Batch&) {})
                         .loss());
  }
  EXPECT_TRUE(test::within(relative_difference(models[2], models[0]), 0.0, rounding));
  EXPECT_TRUE(test::within(relative_difference(models[3], models[1]), 0.0, rounding));
  EXPECT_NE(models[3], models[2]);
  EXPECT_TRUE(test::within(losses[1], losses[0], rounding * losses[0]));
}

}  // namespace
}  // namespace flotilla::test
