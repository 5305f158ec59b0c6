// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/strategy/local_sgd/fragments.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/relative_difference.hpp"
#include "tests/support/within.hpp"
#include "tests/train/training_run.hpp"

// Local SGD whose averages are made of fragments, in turn, and while training goes on: what it must be equal
// to, on 1, 2 and 4 workers, in process.

namespace flotilla {
namespace {

using test::resnet_deck;
using test::small_mlp_deck;
using test::TrainingRun;
using test::operator+;
using Texts = std::vector<std::string>;

Texts streaming(int period, int fragments, int overlap_steps, double mix = 0.0) {
  return {"strategy.kind=local-sgd", "strategy.period=" + std::to_string(period),
          "strategy.fragments=" + std::to_string(fragments),
          "strategy.overlap_steps=" + std::to_string(overlap_steps), "strategy.mix=" + std::to_string(mix)};
}

const Texts diloco = {"strategy.outer.kind=nesterov", "strategy.outer.learning_rate=0.7",
                      "strategy.outer.momentum=0.9"};
/// The outer step takes the other workers' changes of the period before.
Texts eager(int period) {
  return {"strategy.kind=local-sgd", "strategy.eager=true", "strategy.period=" + std::to_string(period)};
}

const Texts never = {"strategy.kind=local-sgd", "strategy.period=100000"};

ArenaLayout layout_of(const std::vector<std::int64_t>& sizes) {
  ArenaLayout layout;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    layout.add("tensor" + std::to_string(i), {{sizes[i]}}, ParameterKind::weight);
  return layout;
}

TEST(Fragments, HaveEveryTensorOnceAndNearlyEqualSizes) {
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{16, 16, 16, 16},
                                                 {160, 16, 16, 16, 16, 16},
                                                 {16, 16, 16, 1600},
                                                 {7},
                                                 {1, 2, 3, 5, 7, 11}}) {
    const ArenaLayout layout = layout_of(sizes);
    for (std::int64_t count = 1; count <= std::ssize(sizes); ++count) {
      const std::vector<Fragment> fragments = cut_fragments(layout, count);

      ASSERT_EQ(std::ssize(fragments), count);
      std::size_t next = 0;
      for (const Fragment& fragment : fragments) {
        EXPECT_EQ(fragment.begin, next);
        EXPECT_GT(fragment.size(), 0U);
        EXPECT_TRUE(std::ranges::any_of(layout.slices(), [&](const Slice& tensor) {
          return tensor.offset == static_cast<std::int64_t>(fragment.begin);
        }));
        EXPECT_EQ(fragment.statistics, &fragment == &fragments.back());
        next = fragment.end;
      }
      EXPECT_EQ(next, static_cast<std::size_t>(layout.size()));
    }
  }
  EXPECT_EQ(cut_fragments(layout_of({16, 16, 16, 16}), 2)[0].end, 32U);
  EXPECT_EQ(cut_fragments(layout_of({160, 16, 16, 16, 16, 16}), 2)[0].end, 160U);
}

TEST(Fragments, AreNoMoreThanTensors) {
  try {
    cut_fragments(layout_of({16, 16}), 3);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("only 2 tensors"), std::string::npos) << error.what();
  }
}

/// The parameters of all steps from 1 to `steps` on this worker.
std::vector<std::vector<float>> trajectory(const std::string& deck, const Texts& more, int steps) {
  TrainingRun training(mpi::Communicator::world(), deck, more);
  std::vector<std::vector<float>> all;
  for (int i = 0; i < steps; ++i) {
    training.step();
    all.push_back(training.parameters());
  }
  return all;
}

TEST(Streaming, WhichKeepsItsOwnValuesIsIndependentRuns) {
  for (const std::string& deck : {small_mlp_deck, resnet_deck}) {
    const int steps = deck == resnet_deck ? 3 : 30;
    const auto expected = trajectory(deck, never, steps);

    EXPECT_EQ(trajectory(deck, streaming(4, 2, 1, 1.0) + diloco, steps), expected);
    if (deck == resnet_deck) continue;  // the same code; its 11 million parameters take their time
    EXPECT_EQ(trajectory(deck, streaming(3, 1, 0, 1.0) + diloco, steps), expected);
  }
}

TEST(Streaming, InOneFragmentThatIsWaitedForIsDiLoCo) {
  const Texts plain = {"strategy.kind=local-sgd", "strategy.period=2"};
  for (const std::string& deck : {small_mlp_deck, resnet_deck}) {
    const int steps = deck == resnet_deck ? 2 : 20;

    EXPECT_EQ(trajectory(deck, streaming(2, 1, 0) + diloco, steps), trajectory(deck, plain + diloco, steps));
  }
}

/// This worker's values and their mean over the workers.
std::vector<float> mean_of(std::vector<float> values) {
  const auto world = mpi::Communicator::world();
  world.all_reduce(std::span<float>(values));
  for (float& value : values) value /= static_cast<float>(world.size());
  return values;
}

// Algorithm 2 of the paper, with SGD and one fragment: after the step in which an average takes effect the
// parameters are α x + (1 − α) θ, with θ from the outer step on what was sent τ steps before.
TEST(Streaming, FollowsTheAlgorithm) {
  constexpr int period = 6;
  for (const int overlap : {1, 4, 5}) {
    for (const double mix : {0.0, 0.5}) {
      TrainingRun training(mpi::Communicator::world(), small_mlp_deck,
                           streaming(period, 1, overlap, mix) + diloco + Texts{"optimizer.kind=sgd"});
      TrainingRun alone(mpi::Communicator::world(), small_mlp_deck, never + Texts{"optimizer.kind=sgd"});
      std::vector<float> anchor = training.parameters();
      std::vector<float> velocity(anchor.size());
      std::vector<float> sent;
      for (int done = 1; done <= 4 * period; ++done) {
        training.step();
        alone.step();
        std::vector<float> expected = alone.parameters();
        if (done > period && done % period == overlap) {
          const std::vector<float> mean = mean_of(sent);
          for (std::size_t i = 0; i < anchor.size(); ++i) {
            const float difference = anchor[i] - mean[i];
            velocity[i] = 0.9F * velocity[i] + difference;
            anchor[i] -= 0.7F * (difference + 0.9F * velocity[i]);
            const auto share = static_cast<float>(mix);
            expected[i] = share * expected[i] + (1.0F - share) * anchor[i];
          }
          alone.parts.model.machine.device->memory().upload(expected, alone.parts.model.weights.parameters);
        }
        if (done % period == 0) sent = expected;

        // What a step and an outer step round, which training amplifies a little.
        ASSERT_TRUE(
            test::within(test::relative_difference(training.parameters(), expected), 0.0, done * 1e-6))
            << "step " << done << ", overlap " << overlap << ", mix " << mix;
      }
    }
  }
}

TEST(Streaming, AveragesFragmentsInTurn) {
  const auto world = mpi::Communicator::world();
  TrainingRun training(mpi::Communicator::world(), small_mlp_deck, streaming(6, 3, 0));
  const std::vector<Fragment> fragments = cut_fragments(training.parts.model.network->layout(), 3);
  for (int done = 1; done <= 18; ++done) {
    training.step();

    const std::vector<float> own = training.parameters();
    std::vector<float> roots = own;
    world.broadcast(std::span<float>(roots));
    for (std::size_t i = 0; i < fragments.size(); ++i) {
      const auto begin = static_cast<std::ptrdiff_t>(fragments[i].begin);
      const auto end = static_cast<std::ptrdiff_t>(fragments[i].end);
      const bool equal = std::equal(own.begin() + begin, own.begin() + end, roots.begin() + begin);
      const bool averaged = done % 2 == 0 && static_cast<std::size_t>(done / 2 - 1) % 3 == i;
      EXPECT_EQ(equal, averaged || world.is_root()) << "fragment " << i << " after step " << done;
    }
  }
}

TEST(Streaming, SendsAsManyBytesAsAveragesOfTheWholeModel) {
  const auto sent = [](const Texts& more) {
    TrainingRun training(mpi::Communicator::world(), small_mlp_deck, more + Texts{"strategy.all_reduce=mpi"});
    for (int i = 0; i < 24; ++i) training.step();
    return training.parts.sync.sent_bytes();
  };
  const std::int64_t whole = sent({"strategy.kind=local-sgd", "strategy.period=12"});

  // Losses of the workers travel at averages that are waited for, which these are not.
  EXPECT_LE(sent(streaming(12, 3, 3)), whole);
  EXPECT_GT(sent(streaming(12, 3, 3)), whole * 9 / 10 - 1);
}

TEST(Streaming, AllocatesNothingInAStep) {
  for (const Texts& more : {streaming(4, 2, 1, 0.5) + diloco, streaming(4, 2, 0), eager(4) + diloco}) {
    TrainingRun training(mpi::Communicator::world(), small_mlp_deck, more);
    for (int i = 0; i < 9; ++i) training.step();
    const std::int64_t before = test::allocations_of_this_thread();

    for (int i = 0; i < 21; ++i) training.step();

    EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
  }
}

TEST(Streaming, OverAWireThatRoundsComesNearTheFullOne) {
  for (const Texts& strategy : {streaming(6, 2, 2), eager(6) + diloco}) {
    const auto end = [&](const Texts& more) {
      return trajectory(small_mlp_deck, strategy + Texts{"strategy.all_reduce=mpi"} + more, 40).back();
    };
    const std::vector<float> expected = end({});
    for (const auto& [wire, most] :
         {std::pair("bfloat16", 1e-2), std::pair("int8", 1e-2), std::pair("fp4", 1e-1)}) {
      const std::vector<float> found = end({std::string("strategy.wire=") + wire});

      EXPECT_TRUE(test::within(test::relative_difference(found, expected), 0.0, most)) << wire;
      EXPECT_EQ(found != expected, mpi::Communicator::world().size() > 1);
    }
  }
}

TEST(Eager, WithOneWorkerIsItsOuterOptimizer) {
  if (mpi::Communicator::world().size() > 1) GTEST_SKIP() << "several have each other's changes late";
  const Texts sgd = {"strategy.outer.kind=sgd"};
  const Texts own = {"strategy.statistics=local"};
  const Texts waits = {"strategy.kind=local-sgd", "strategy.period=2"};

  for (const Texts& outer : {diloco, Texts{"strategy.outer.kind=momentum", "strategy.outer.momentum=0.5"}})
    EXPECT_EQ(trajectory(small_mlp_deck, eager(2) + outer, 30),
              trajectory(small_mlp_deck, waits + outer, 30));
  EXPECT_EQ(trajectory(small_mlp_deck, eager(2) + sgd, 30), trajectory(small_mlp_deck, never, 30));
  EXPECT_EQ(trajectory(resnet_deck, eager(2) + sgd + own, 3), trajectory(resnet_deck, never, 3));
}

// Kale et al. 2025: the outer gradient of worker m after period t is the mean of all workers' differences of
// period t − 1, where its own of period t stands in place of its own of t − 1.
TEST(Eager, FollowsTheAlgorithm) {
  constexpr int period = 4;
  const auto workers = static_cast<float>(mpi::Communicator::world().size());
  TrainingRun training(mpi::Communicator::world(), small_mlp_deck,
                       eager(period) + diloco + Texts{"optimizer.kind=sgd"});
  TrainingRun alone(mpi::Communicator::world(), small_mlp_deck, never + Texts{"optimizer.kind=sgd"});
  std::vector<float> anchor = training.parameters();
  std::vector<float> velocity(anchor.size());
  std::vector<float> difference(anchor.size());
  std::vector<float> mean(anchor.size());  // of the period before
  for (int done = 1; done <= 6 * period; ++done) {
    training.step();
    alone.step();
    std::vector<float> expected = alone.parameters();
    if (done % period == 0) {
      for (std::size_t i = 0; i < anchor.size(); ++i) {
        const float before = difference[i];
        difference[i] = anchor[i] - expected[i];
        const float gradient = mean[i] + (difference[i] - before) / workers;
        velocity[i] = 0.9F * velocity[i] + gradient;
        anchor[i] -= 0.7F * (gradient + 0.9F * velocity[i]);
      }
      mean = mean_of(difference);
      expected = anchor;
      alone.parts.model.machine.device->memory().upload(expected, alone.parts.model.weights.parameters);
    }

    ASSERT_TRUE(test::within(test::relative_difference(training.parameters(), expected), 0.0, done * 1e-6))
        << "step " << done;
  }
}

TEST(Eager, EvaluatesTheMeanOfTheWorkersOverAnyWire) {
  for (const std::string wire : {"float32", "bfloat16", "int8"}) {
    TrainingRun training(mpi::Communicator::world(), small_mlp_deck,
                         eager(3) + diloco + Texts{"strategy.all_reduce=mpi", "strategy.wire=" + wire});
    for (int i = 0; i < 11; ++i) training.step();
    const std::vector<float> own = training.parameters();

    const std::vector<float> found = training.values(training.parts.sync.strategy->consensus().parameters);

    EXPECT_TRUE(test::within(test::relative_difference(found, mean_of(own)), 0.0, 4 * test::float_rounding));
    EXPECT_EQ(training.parameters(), own);
  }
}

}  // namespace
}  // namespace flotilla
