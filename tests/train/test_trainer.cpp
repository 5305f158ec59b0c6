// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>
#include <vector>

#include "src/config/deck.hpp"
#include "src/train/trainer.hpp"
#include "tests/support/allocation_count.hpp"

// The training step on 1, 2 and 4 workers, in process.

namespace flotilla {
namespace {

/// Counts operator new on the thread that it records, between the first span and the last.
class CountingSink : public trace::Sink {
 public:
  void span(const char*, std::int64_t, std::int64_t) override {
    const std::int64_t now = test::allocations_of_this_thread();
    if (spans_++ == 0) first_ = now;
    last_ = now;
  }
  std::int64_t allocations() const { return last_ - first_; }
  std::int64_t spans() const { return spans_; }

 private:
  std::atomic<std::int64_t> first_{0};
  std::atomic<std::int64_t> last_{0};
  std::atomic<std::int64_t> spans_{0};
};

/// A run on random data, with what a deck may add.
struct TestRun {
  TestRun(const std::vector<std::string>& more, trace::Sink* communication = nullptr)
      : world(mpi::Communicator::world()),
        deck(load_deck({.path = FLOTILLA_SOURCE_DIR "/inputs/mlp_random.toml",
                        .text = read_deck_file(FLOTILLA_SOURCE_DIR "/inputs/mlp_random.toml"),
                        .overrides = with_defaults(more)})),
        failure(world.rank(), world.size(), "test"),
        assembly(deck.config, world, failure, {}, communication),
        reporter({.folder = "", .rank = 1}),
        trainer({.assembly = assembly,
                 .reporter = reporter,
                 .writer = nullptr,
                 .failure = failure,
                 .loading = {.threads = 1, .prefetch = 2, .sink = {}},
                 .build = ""},
                {}) {
    assembly.strategy->start();
  }

  static std::vector<std::string> with_defaults(std::vector<std::string> more) {
    more.insert(more.begin(), {"run.output=/nowhere", "device.threads=1", "train.global_batch_size=32"});
    return more;
  }
  std::vector<float> parameters() {
    std::vector<float> values(assembly.model.parameters.size());
    assembly.device->download(assembly.model.parameters, values);
    return values;
  }

  mpi::Communicator world;
  LoadedDeck deck;
  FailureHandler failure;
  Assembly assembly;
  Reporter reporter;
  Trainer trainer;
};

const std::vector<std::string> several_buckets = {"strategy.bucket_mb=0.02", "strategy.last_bucket_mb=0.001"};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Trainer, AllocatesNothingInAStep) {
  for (const auto& more : {std::vector<std::string>{}, several_buckets,
                           several_buckets + std::vector<std::string>{"strategy.all_reduce=mpi"}}) {
    CountingSink communication;
    TestRun run(more, &communication);
    const auto loader = run.trainer.make_loader();
    for (int i = 0; i < 3; ++i) run.trainer.step(*loader);

    const std::int64_t before = test::allocations_of_this_thread();
    for (int i = 0; i < 20; ++i) run.trainer.step(*loader);

    EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
    EXPECT_EQ(communication.allocations(), 0);
    EXPECT_EQ(communication.spans() > 0, run.assembly.communication != nullptr);
    EXPECT_EQ(run.assembly.communication != nullptr, !more.empty() && run.world.size() > 1);
  }
}

TEST(Trainer, LeavesTheSameParametersOnEveryWorker) {
  TestRun run(several_buckets);
  const auto loader = run.trainer.make_loader();
  for (int i = 0; i < 10; ++i) run.trainer.step(*loader);

  const std::vector<float> mine = run.parameters();
  std::vector<float> roots = mine;
  run.world.broadcast(std::span<float>(roots));

  EXPECT_EQ(mine, roots);
}

TEST(Trainer, ReportsTheMeanOverAllWorkersOfTheStep) {
  TestRun run({});
  const auto loader = run.trainer.make_loader();

  const StepOutcome outcome = run.trainer.step(*loader);

  // Random labels of two classes and small weights: the first loss is near ln 2, and the same on every rank.
  EXPECT_NEAR(outcome.loss, std::log(2.0), 0.2);
  EXPECT_EQ(outcome.accuracy_top5, 1.0);
  double loss = outcome.loss;
  run.world.broadcast(std::span(&loss, 1));
  EXPECT_EQ(loss, outcome.loss);
}

TEST(Trainer, ClipsTheNormOfTheAveragedGradient) {
  // One step of SGD with rate 1 moves the parameters by the gradient: its norm is the limit, on any number of
  // workers.
  TestRun run({"schedule.learning_rate=1", "train.gradient_clip_norm=0.01"});
  const auto loader = run.trainer.make_loader();
  const std::vector<float> before = run.parameters();

  run.trainer.step(*loader);

  const std::vector<float> after = run.parameters();
  double squares = 0.0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double moved = static_cast<double>(after[i]) - static_cast<double>(before[i]);
    squares += moved * moved;
  }
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-4);
}

TEST(Trainer, MovesAsOneWorkerDoes) {
  TestRun run({"schedule.learning_rate=0.5", "optimizer.kind=momentum", "optimizer.momentum=0.9"});
  const auto loader = run.trainer.make_loader();
  double sum_of_losses = 0.0;
  for (int i = 0; i < 20; ++i) sum_of_losses += run.trainer.step(*loader).loss;

  // Every rank count sees the same batches: what one worker gives is computed here, on rank 0's own.
  const mpi::Communicator alone = run.world.split(run.world.rank());
  Assembly single(run.deck.config, alone, run.failure, {});
  Trainer trainer({.assembly = single,
                   .reporter = run.reporter,
                   .writer = nullptr,
                   .failure = run.failure,
                   .loading = {.threads = 0, .prefetch = 1, .sink = {}},
                   .build = ""},
                  {});
  single.strategy->start();
  const auto single_loader = trainer.make_loader();
  double expected = 0.0;
  for (int i = 0; i < 20; ++i) expected += trainer.step(*single_loader).loss;

  EXPECT_NEAR(sum_of_losses, expected, 20 * 32 * 20 * std::pow(2.0, -24));
}

}  // namespace
}  // namespace flotilla
