// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "mpi/core/slices.hpp"
#include "src/train/training_loaders.hpp"
#include "tests/support/relative_difference.hpp"
#include "tests/support/within.hpp"
#include "tests/train/counting_sink.hpp"
#include "tests/train/rounding_growth.hpp"
#include "tests/train/training_run.hpp"

// What local SGD must be equal to, on 1, 2 and 4 workers, in process.

namespace flotilla {
namespace {

using test::CountingSink;
using test::resnet_deck;
using test::smooth_deck;
using test::TrainingRun;
using test::operator+;
using Texts = std::vector<std::string>;

std::string mlp_deck() {
  return read_deck_file(FLOTILLA_SOURCE_DIR "/inputs/mlp_random.toml");
}

const Texts momentum = {"optimizer.kind=momentum", "optimizer.momentum=0.9", "schedule.learning_rate=0.05"};
const Texts mlp = Texts{"train.global_batch_size=32"} + momentum;

Texts local(int period) {
  return {"strategy.kind=local-sgd", "strategy.period=" + std::to_string(period)};
}

struct Outcome {
  std::vector<float> parameters;
  std::vector<float> statistics;
};

/// The consensus after `steps` steps.
Outcome run(const std::string& deck, const Texts& more, int steps) {
  TrainingRun training(mpi::Communicator::world(), deck, more);
  for (int i = 0; i < steps; ++i) training.step();
  const Model model = training.parts.sync.strategy->consensus();
  return {training.values(model.parameters), training.values(model.statistics)};
}

/// Relative rounding of float32 sums, which every step adds again and training amplifies a little.
constexpr double per_step = 2e-7;

TEST(LocalSgd, WithPeriodOneIsAllReduce) {
  constexpr int steps = 100;
  for (const Texts& optimizer :
       {Texts{}, Texts{"optimizer.kind=nesterov"}, Texts{"optimizer.weight_decay=0.01"}}) {
    const Outcome expected = run(mlp_deck(), mlp + optimizer, steps);

    const Outcome outcome = run(mlp_deck(), mlp + optimizer + local(1), steps);

    EXPECT_TRUE(test::within(test::relative_difference(outcome.parameters, expected.parameters), 0.0,
                             steps * per_step));
  }
}

TEST(LocalSgd, WithALongPeriodIsNotAllReduce) {
  const auto world = mpi::Communicator::world();
  const Outcome expected = run(mlp_deck(), mlp, 50);

  const Outcome outcome = run(mlp_deck(), mlp + local(10), 50);

  EXPECT_EQ(test::relative_difference(outcome.parameters, expected.parameters) > 1e-3, world.size() > 1);
}

const Texts calm = {"schedule.learning_rate=0.0001", "train.global_batch_size=32"};

TEST(LocalSgd, WithPeriodOneIsAllReduceOnAResidualNetwork) {
  const Outcome expected = run(resnet_deck, calm, 1);

  const Outcome outcome = run(resnet_deck, calm + local(1), 1);

  // The update rounds parameters, and so does the sum of all; gradients and statistics are sums of few.
  EXPECT_TRUE(test::within(test::relative_difference(outcome.parameters, expected.parameters), 0.0,
                           4 * test::float_rounding));
  EXPECT_TRUE(test::within(test::relative_difference(outcome.statistics, expected.statistics), 0.0,
                           4 * test::float_rounding));
}

TEST(LocalSgd, WithPeriodOneStaysNearAllReduceOnAResidualNetwork) {
  if (mpi::Communicator::world().size() == 1) GTEST_SKIP() << "one worker is always alone";
  const Texts steps = {"schedule.learning_rate=0.01", "train.global_batch_size=32"};
  const Outcome begin = run(smooth_deck, steps, 0);
  const Outcome expected = run(smooth_deck, steps, 8);

  const Outcome averaged = run(smooth_deck, steps + local(1), 8);
  const Outcome apart = run(smooth_deck, steps + local(8), 8);

  EXPECT_TRUE(test::within(test::way_apart(averaged.parameters, expected.parameters, begin.parameters), 0.0,
                           0.25 * test::way_apart(apart.parameters, expected.parameters, begin.parameters)));
  EXPECT_TRUE(test::within(test::way_apart(averaged.statistics, expected.statistics, begin.statistics), 0.0,
                           0.25 * test::way_apart(apart.statistics, expected.statistics, begin.statistics)));
}

TEST(LocalSgd, WithAnOuterRateOfOneIsPlain) {
  const Outcome expected = run(mlp_deck(), mlp + local(5), 20);

  const Outcome outcome = run(mlp_deck(), mlp + local(5) + Texts{"strategy.outer.kind=sgd"}, 20);

  EXPECT_EQ(outcome.parameters, expected.parameters);
}

TEST(LocalSgd, WithOneGroupIsAllReduce) {
  const auto world = mpi::Communicator::world();
  constexpr int steps = 100;
  const Outcome expected = run(mlp_deck(), mlp, steps);

  const Outcome outcome = run(
      mlp_deck(),
      mlp + local(10) +
          Texts{"strategy.group_all_reduce=true", "strategy.ranks_per_group=" + std::to_string(world.size())},
      steps);

  EXPECT_TRUE(test::within(test::relative_difference(outcome.parameters, expected.parameters), 0.0,
                           steps * per_step));
}

TEST(LocalSgd, NeverAveragedEndsInTheMeanOfRunsOfTheirOwn) {
  const auto world = mpi::Communicator::world();
  TrainingRun training(mpi::Communicator::world(), mlp_deck(), mlp + local(1000));
  for (int i = 0; i < 20; ++i) training.step();
  std::vector<float> mean = training.parameters();  // this worker's own
  world.all_reduce(std::span<float>(mean));
  for (float& value : mean) value /= static_cast<float>(world.size());
  const std::vector<float> before = training.parameters();

  const std::vector<float> consensus = training.values(training.parts.sync.strategy->consensus().parameters);

  EXPECT_TRUE(test::within(test::relative_difference(consensus, mean), 0.0, 4 * test::float_rounding));
  EXPECT_EQ(training.parameters(), before);
}

TEST(LocalSgd, HasItsIdentitiesOnAResidualNetworkToo) {
  const auto world = mpi::Communicator::world();
  const Texts one_group = {"strategy.group_all_reduce=true",
                           "strategy.ranks_per_group=" + std::to_string(world.size())};
  EXPECT_TRUE(
      test::within(test::relative_difference(run(smooth_deck, calm + local(2) + one_group, 4).parameters,
                                             run(smooth_deck, calm, 4).parameters),
                   0.0, 1e-6));
  EXPECT_TRUE(
      test::within(test::relative_difference(
                       run(smooth_deck, calm + local(3) + Texts{"strategy.outer.kind=sgd"}, 3).parameters,
                       run(smooth_deck, calm + local(3), 3).parameters),
                   0.0, 1e-6));

  TrainingRun apart(mpi::Communicator::world(), smooth_deck, calm + local(1000));
  for (int i = 0; i < 3; ++i) apart.step();
  std::vector<float> mean = apart.parameters();
  std::vector<float> mean_statistics = apart.statistics();
  for (std::vector<float>* values : {&mean, &mean_statistics}) {
    world.all_reduce(std::span<float>(*values));
    for (float& value : *values) value /= static_cast<float>(world.size());
  }
  const Model consensus = apart.parts.sync.strategy->consensus();
  EXPECT_TRUE(test::within(test::relative_difference(apart.values(consensus.parameters), mean), 0.0,
                           4 * test::float_rounding));
  EXPECT_TRUE(test::within(test::relative_difference(apart.values(consensus.statistics), mean_statistics),
                           0.0, 4 * test::float_rounding));
}

TEST(LocalSgd, WithAnOuterNesterovAndPeriodOneIsNesterov) {
  // Inner SGD of rate η and an outer step of rate γ: Nesterov's momentum with rate η γ.
  constexpr int steps = 50;
  const Texts plain = {"train.global_batch_size=32"};
  const Outcome expected =
      run(mlp_deck(),
          plain + Texts{"optimizer.kind=nesterov", "optimizer.momentum=0.9", "schedule.learning_rate=0.035"},
          steps);

  const Outcome outcome =
      run(mlp_deck(),
          plain + local(1) +
              Texts{"optimizer.kind=sgd", "schedule.learning_rate=0.05", "strategy.outer.kind=nesterov",
                    "strategy.outer.learning_rate=0.7", "strategy.outer.momentum=0.9"},
          steps);

  EXPECT_TRUE(test::within(test::relative_difference(outcome.parameters, expected.parameters), 0.0,
                           steps * 10 * per_step));
}

TEST(LocalSgd, WithSlowMomentumAndPeriodOneIsMomentum) {
  constexpr int steps = 50;
  const Texts plain = {"train.global_batch_size=32", "schedule.learning_rate=0.05"};
  const Outcome expected =
      run(mlp_deck(), plain + Texts{"optimizer.kind=momentum", "optimizer.momentum=0.5"}, steps);

  const Outcome outcome =
      run(mlp_deck(),
          plain + local(1) +
              Texts{"optimizer.kind=sgd", "strategy.outer.kind=momentum", "strategy.outer.momentum=0.5"},
          steps);

  EXPECT_TRUE(test::within(test::relative_difference(outcome.parameters, expected.parameters), 0.0,
                           steps * 10 * per_step));
}

TEST(LocalSgd, BeginsWithStepsOfAllWorkersTogether) {
  for (const std::string before : {"all-reduce", "average"}) {
    const Outcome expected = run(mlp_deck(), mlp, 30);

    const Outcome outcome =
        run(mlp_deck(),
            mlp + local(1000) + Texts{"strategy.begin_step=30", "strategy.before_begin=" + before}, 30);

    EXPECT_TRUE(
        test::within(test::relative_difference(outcome.parameters, expected.parameters), 0.0, 30 * per_step))
        << before;
  }
}

TEST(LocalSgd, AllReduceBeforeTheBeginningHasItsBits) {
  const Outcome expected = run(mlp_deck(), mlp, 30);

  const Outcome outcome =
      run(mlp_deck(), mlp + local(1000) + Texts{"strategy.begin_step=30", "strategy.before_begin=all-reduce"},
          30);

  EXPECT_EQ(outcome.parameters, expected.parameters);
}

TEST(LocalSgd, LeavesOneModelAfterAnAveraging) {
  const auto world = mpi::Communicator::world();
  for (const Texts& more :
       {Texts{}, Texts{"strategy.momentum=average"}, Texts{"strategy.momentum=reset"},
        Texts{"strategy.wire=bfloat16", "strategy.all_reduce=mpi"}, Texts{"strategy.wire=int8"},
        Texts{"strategy.wire=fp4", "strategy.wire_rounding=stochastic"},
        Texts{"strategy.outer.kind=momentum", "strategy.outer.momentum=0.5"}}) {
    TrainingRun training(mpi::Communicator::world(), mlp_deck(), mlp + local(4) + more);
    for (int i = 0; i < 8; ++i) training.step();

    std::vector<float> roots = training.parameters();
    world.broadcast(std::span<float>(roots));
    EXPECT_EQ(training.parameters(), roots);

    training.step();
    roots = training.parameters();
    world.broadcast(std::span<float>(roots));
    EXPECT_EQ(training.parameters() == roots, world.is_root() || world.size() == 1);
  }
}

TEST(LocalSgd, AveragesOrResetsTheOptimizersState) {
  const auto world = mpi::Communicator::world();
  TrainingRun averaged(mpi::Communicator::world(), mlp_deck(),
                       mlp + local(4) + Texts{"strategy.momentum=average"});
  TrainingRun reset(mpi::Communicator::world(), mlp_deck(),
                    mlp + local(4) + Texts{"strategy.momentum=reset"});
  for (int i = 0; i < 4; ++i) {
    averaged.step();
    reset.step();
  }

  std::vector<float> velocity = averaged.values(averaged.parts.model.optimizer->slots()[0].values);
  std::vector<float> roots = velocity;
  world.broadcast(std::span<float>(roots));
  EXPECT_EQ(velocity, roots);
  velocity = reset.values(reset.parts.model.optimizer->slots()[0].values);
  EXPECT_EQ(std::ranges::count(velocity, 0.0F), static_cast<std::ptrdiff_t>(velocity.size()));
}

TEST(LocalSgd, OverAHalfWireComesNearTheFullOne) {
  const Outcome expected = run(mlp_deck(), mlp + local(4) + Texts{"strategy.all_reduce=mpi"}, 40);

  const Outcome outcome =
      run(mlp_deck(), mlp + local(4) + Texts{"strategy.all_reduce=mpi", "strategy.wire=float16"}, 40);

  // Each averaging rounds differences of about a hundredth of the parameters, by 2⁻¹¹ of them.
  EXPECT_TRUE(test::within(test::relative_difference(outcome.parameters, expected.parameters), 0.0, 1e-3));
  EXPECT_EQ(outcome.parameters != expected.parameters, mpi::Communicator::world().size() > 1);
}

TEST(LocalSgd, OverAScaledWireStaysNearTheFullOne) {
  const Outcome begin = run(mlp_deck(), mlp, 0);
  const Outcome expected = run(mlp_deck(), mlp + local(4), 40);
  for (const auto& [wire, most] : {std::pair("int8", 0.02), std::pair("fp8", 0.08), std::pair("fp4", 0.3)}) {
    for (const std::string rounding : {"nearest", "stochastic"}) {
      const Outcome outcome =
          run(mlp_deck(),
              mlp + local(4) + Texts{cat("strategy.wire=", wire), "strategy.wire_rounding=" + rounding}, 40);

      EXPECT_TRUE(
          test::within(test::way_apart(outcome.parameters, expected.parameters, begin.parameters), 0.0, most))
          << wire << " " << rounding;
      EXPECT_EQ(outcome.parameters != expected.parameters, mpi::Communicator::world().size() > 1);
    }
  }
}

/// The mean of the workers' models, where each also has what it has not sent yet, does not change.
TEST(LocalSgd, OverAScaledWireKeepsWhatAnAveragingHasLeft) {
  const auto world = mpi::Communicator::world();
  TrainingRun training(mpi::Communicator::world(), mlp_deck(), mlp + local(4) + Texts{"strategy.wire=fp4"});
  const std::vector<float> begin = training.parameters();
  // Validations and checkpoints in between change nothing.
  for (int i = 0; i < 3; ++i) {
    training.step();
    training.parts.sync.strategy->consensus();
    training.parts.sync.strategy->state();
  }
  EXPECT_EQ(training.parts.sync.wire_errors().empty(), world.size() == 1);
  if (world.size() == 1) return;
  const auto errors = [&] { return training.values(training.parts.sync.wire_errors().front().values); };
  EXPECT_EQ(std::ranges::count(errors(), 0.0F), std::ssize(begin));
  training.step();

  TrainingRun exact(mpi::Communicator::world(), mlp_deck(), mlp + local(4));
  for (int i = 0; i < 4; ++i) exact.step();
  std::vector<float> left = errors();
  world.all_reduce(std::span<float>(left));
  const std::vector<float> averaged = training.parameters();
  const std::vector<float> expected = exact.parameters();
  for (std::size_t i = 0; i < left.size(); ++i)
    ASSERT_TRUE(test::within(averaged[i] + left[i] / static_cast<float>(world.size()), expected[i], 1e-6));
  EXPECT_NE(averaged, expected);
}

TEST(LocalSgd, OverAScaledWireCountsTheBytesOfItsFormat) {
  const auto world = mpi::Communicator::world();
  constexpr std::int64_t averagings = 2;
  const auto sent = [&](const std::string& wire) {
    TrainingRun training(mpi::Communicator::world(), mlp_deck(),
                         mlp + local(4) + Texts{"strategy.all_reduce=mpi", "strategy.wire=" + wire});
    for (int i = 0; i < 4 * averagings; ++i) training.step();
    return training.parts.sync.sent_bytes();
  };
  const auto count = TrainingRun(mpi::Communicator::world(), mlp_deck(), mlp).parameters().size();
  // A rank sends the others their slices, and each of them the sum of its own.
  const auto bytes = [&](std::size_t bits) {
    std::size_t sum = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      const mpi::SliceBounds slice = mpi::slice_of(0, count, rank, world.size());
      const std::size_t values = slice.end - slice.begin;
      const std::size_t message = (values * bits + 7) / 8 + 4 * ((values + 255) / 256);
      sum += rank == world.rank() ? static_cast<std::size_t>(world.size() - 1) * message : message;
    }
    return world.size() == 1 ? 0 : averagings * static_cast<std::int64_t>(sum);
  };

  const std::int64_t others = sent("int8") - bytes(8);  // sums of losses and samples

  EXPECT_GE(others, 0);
  EXPECT_LT(others, 1000);
  EXPECT_EQ(sent("fp8") - bytes(8), others);
  EXPECT_EQ(sent("fp4") - bytes(4), others);
}

TEST(LocalSgd, SavesWhatWorkersHaveOfTheirOwnAndTheOneModel) {
  TrainingRun training(mpi::Communicator::world(), mlp_deck(), mlp + local(10));
  for (int i = 0; i < 15; ++i) training.step();

  const StrategyState state = training.parts.sync.strategy->state();

  EXPECT_EQ(training.values(state.shared[0].values),
            training.values(training.parts.sync.strategy->consensus().parameters));
  EXPECT_EQ(training.values(state.own[0].values), training.parameters());
  EXPECT_EQ(state.numbers.at("period.last_averaging"), 10.0);
}

TEST(LocalSgd, AllocatesNothingInAStep) {
  for (const Texts& more :
       {Texts{}, Texts{"strategy.outer.kind=nesterov", "strategy.outer.momentum=0.9"},
        Texts{"strategy.momentum=average", "strategy.all_reduce=mpi"}, Texts{"strategy.wire=int8"}}) {
    TrainingRun training(mpi::Communicator::world(), mlp_deck(), mlp + local(3) + more);
    for (int i = 0; i < 4; ++i) training.step();
    const std::int64_t before = test::allocations_of_this_thread();

    for (int i = 0; i < 21; ++i) training.step();

    EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
  }
}

TEST(LocalSgd, WorkersThatMeasureAgreeOnOnePeriod) {
  const auto world = mpi::Communicator::world();
  TrainingRun training(
      mpi::Communicator::world(), mlp_deck(),
      mlp + Texts{"strategy.kind=adaptive-local-sgd", "strategy.rule=exposed", "strategy.exposed_share=0.05",
                  "strategy.initial_period=64", "strategy.wire=int8", "strategy.outer.kind=nesterov",
                  "strategy.outer.momentum=0.9"});
  std::set<std::int64_t> seen;
  for (int done = 1, next = 64; done <= 256; ++done) {
    const std::int64_t period = training.step().period;
    seen.insert(period);

    const std::vector<std::int64_t> periods = world.all_gather(std::span<const std::int64_t>(&period, 1));
    EXPECT_EQ(std::ranges::count(periods, period), std::ssize(periods)) << done;
    std::vector<float> roots = training.parameters();
    world.broadcast(std::span<float>(roots));
    EXPECT_EQ(training.parameters() == roots, world.is_root() || done == next) << done;
    if (done == next) next += static_cast<int>(period);
  }
  EXPECT_GT(seen.size(), 1U) << "the first period was a guess";
}

TEST(LocalSgd, GroupsAverageAmongEachOtherOnly) {
  const auto world = mpi::Communicator::world();
  if (world.size() < 4) GTEST_SKIP() << "needs two groups of two";
  TrainingRun training(
      mpi::Communicator::world(), mlp_deck(),
      mlp + local(5) + Texts{"strategy.group_all_reduce=true", "strategy.ranks_per_group=2"});
  for (int i = 0; i < 4; ++i) training.step();

  const std::vector<float> mine = training.parameters();
  const float first = mine[0];
  const std::vector<float> firsts = world.all_gather(std::span(&first, 1));
  EXPECT_EQ(firsts[0], firsts[1]);
  EXPECT_EQ(firsts[2], firsts[3]);
  EXPECT_NE(firsts[0], firsts[2]);
  const StepOutcome outcome = training.step();
  std::vector<float> roots = training.parameters();
  world.broadcast(std::span<float>(roots));
  EXPECT_EQ(training.parameters(), roots);
  EXPECT_EQ(outcome.samples, 32.0);  // one worker of each group reported the sums of both
}

TEST(LocalSgd, EstimatesStatisticsFromTrainingBatches) {
  TrainingRun training(mpi::Communicator::world(), smooth_deck,
                       calm + local(4) + Texts{"strategy.statistics=re-estimate"});
  for (int i = 0; i < 6; ++i) training.step();
  const std::vector<float> before = training.statistics();
  const std::vector<float> parameters = training.parameters();
  const Model model = training.parts.sync.strategy->consensus();
  if (training.world.size() == 1) {
    EXPECT_EQ(model.parameters.address(), training.parts.model.weights.parameters.address());
    return;
  }
  const std::vector<float> averaged = training.values(model.statistics);

  re_estimate_statistics(training.parts, model, *training.trainer.make_loader(), 4);

  // Another estimate of the same thing, which training does not notice.
  const std::vector<float> estimated = training.values(model.statistics);
  EXPECT_NE(estimated, averaged);
  const Slice& variance = training.parts.model.network->statistics().layout()[1];
  EXPECT_TRUE(variance.name.ends_with("running_var")) << variance.name;
  for (std::int64_t i = 0; i < variance.size; ++i) {
    const auto at = static_cast<std::size_t>(variance.offset + i);
    // Six steps of 1 − μ = 0.1 bring running ones, which begin with 1, 47 % of the way.
    EXPECT_TRUE(
        test::within(averaged[at], 0.53 + 0.47 * estimated[at], 0.3 * std::abs(1.0 - estimated[at]) + 0.05));
  }
  EXPECT_EQ(training.statistics(), before);
  EXPECT_EQ(training.parameters(), parameters);
  std::vector<float> roots = estimated;
  training.world.broadcast(std::span<float>(roots));
  EXPECT_EQ(estimated, roots);
}

}  // namespace
}  // namespace flotilla
