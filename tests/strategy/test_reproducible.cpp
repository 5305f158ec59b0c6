// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/sharding.hpp"
#include "src/train/evaluation.hpp"
#include "tests/train/counting_sink.hpp"
#include "tests/train/training_run.hpp"

// run.reproducible: 1, 2 and 4 workers in one job of 4 ranks.

namespace flotilla::test {
namespace {

using Overrides = std::vector<std::string>;

const Overrides reproducible = {"run.reproducible=true", "strategy.bucket_mb=0.02",
                                "strategy.last_bucket_mb=0.001"};

std::string mlp_deck() {
  return read_deck_file(FLOTILLA_SOURCE_DIR "/inputs/mlp_random.toml");
}
const Overrides mlp = {"data.train.samples=1000",    "train.global_batch_size=32",
                       "optimizer.kind=momentum",    "optimizer.momentum=0.9",
                       "schedule.learning_rate=0.3", "train.gradient_clip_norm=0.1"};

/// All that a run's bits are about.
struct Bits {
  std::vector<float> parameters, statistics, slots;
  std::vector<double> losses;  ///< Losses of the steps and, last, of a validation
  friend bool operator==(const Bits&, const Bits&) = default;
};

Bits bits_of(TrainingRun& run, int steps) {
  Bits bits;
  for (int i = 0; i < steps; ++i) bits.losses.push_back(run.step().loss);
  bits.parameters = run.parameters();
  bits.statistics = run.statistics();
  for (const OptimizerSlot& slot : run.parts.model.optimizer->slots())
    for (const float value : run.values(slot.values)) bits.slots.push_back(value);
  bits.losses.push_back(evaluate({*run.parts.model.network,
                                  *run.parts.data.training,
                                  {},
                                  run.parts.model.validation_sums.span().subspan(0, loss_sums)},
                                 run.world, run.parts.model.shards(), run.parts.config, [](const Batch&) {})
                            .loss());
  return bits;
}

/// Collective over the job. Trains on its first `workers` ranks; what rank 0 has then (all hold the same:
/// test_trainer), nothing on the others.
std::optional<Bits> train(int workers, const std::string& deck, const Overrides& more, int steps) {
  const auto world = mpi::Communicator::world();
  auto part = world.split(world.rank() < workers ? 0 : 1);
  std::optional<Bits> bits;
  if (world.rank() < workers) {
    TrainingRun run(std::move(part), deck, reproducible + more);
    bits = bits_of(run, steps);
  }
  world.barrier();
  if (!world.is_root()) bits.reset();
  return bits;
}

void expect_equal(const std::optional<Bits>& bits, const std::optional<Bits>& expected) {
  if (!bits || !expected) return;
  EXPECT_EQ(bits->losses, expected->losses);
  EXPECT_TRUE(bits->parameters == expected->parameters);
  EXPECT_TRUE(bits->statistics == expected->statistics);
  EXPECT_TRUE(bits->slots == expected->slots);
}

/// The all-reduces of a run on several workers of one host.
const std::vector<Overrides> algorithms = {
    {"strategy.all_reduce=auto"},
    {"strategy.all_reduce=shared-memory", "strategy.overlap=false"},
    {"strategy.all_reduce=mpi", "strategy.communicators=2"},
    {"strategy.all_reduce=hierarchical", "strategy.ranks_per_group=1"},
    {"strategy.all_reduce=hierarchical", "strategy.ranks_per_group=2"}};

TEST(Reproducible, AnMlpHasTheSameBitsOnAnyNumberOfWorkers) {
  const std::string deck = mlp_deck();
  const Overrides more = mlp + Overrides{"model.dropout=0.2", "train.mixup=0.2"};
  const auto expected = train(1, deck, more, 10);
  for (const int workers : {2, 4})
    for (const Overrides& algorithm : algorithms) {
      SCOPED_TRACE(cat(workers, " workers, ", algorithm.front()));
      expect_equal(train(workers, deck, more + algorithm, 10), expected);
    }
}

TEST(Reproducible, AResidualNetworkHasTheSameBitsOnAnyNumberOfWorkers) {
  const Overrides more = {"strategy.bucket_mb=8", "strategy.last_bucket_mb=0.1", "run.virtual_shards=4"};
  const auto expected = train(1, resnet_deck, more, 2);
  for (const int workers : {2, 4})
    for (const Overrides& algorithm : {algorithms[0], algorithms[2]}) {
      SCOPED_TRACE(cat(workers, " workers, ", algorithm.front()));
      expect_equal(train(workers, resnet_deck, more + algorithm, 2), expected);
    }
}

TEST(Reproducible, ShardsNeedNotBeAPowerOfTwo) {
  // 12 on 1 and 12 on 3 workers, whose trees have uneven branches.
  const Overrides more = mlp + Overrides{"run.virtual_shards=12", "train.global_batch_size=24"};
  const auto expected = train(1, mlp_deck(), more, 5);
  for (const Overrides& algorithm : {algorithms[0], algorithms[2], algorithms[4]})
    expect_equal(train(3, mlp_deck(), more + algorithm, 5), expected);
}

TEST(Reproducible, OtherShardsGiveOtherBits) {
  // Otherwise the tests above would compare nothing.
  const auto eight = train(1, mlp_deck(), mlp, 10);
  const auto four = train(1, mlp_deck(), mlp + Overrides{"run.virtual_shards=4"}, 10);
  if (eight) {
    EXPECT_FALSE(*eight == *four);
  }
}

TEST(Reproducible, AllocatesNothingInAStep) {
  CountingSink communication;
  TrainingRun run(mpi::Communicator::world(), mlp_deck(), reproducible + mlp, &communication);
  for (int i = 0; i < 3; ++i) run.step();

  const std::int64_t before = allocations_of_this_thread();
  const std::int64_t beside_before = communication.allocations();
  for (int i = 0; i < 20; ++i) run.step();

  EXPECT_EQ(allocations_of_this_thread() - before, 0);
  EXPECT_EQ(communication.allocations() - beside_before, 0);
}

TEST(Reproducible, NamesTheWorkerCountsThatAddInOneTree) {
  EXPECT_EQ(shards_per_worker(8, 2), 4);
  EXPECT_EQ(shards_per_worker(12, 1), 12);
  EXPECT_EQ(shards_per_worker(12, 3), 4);
  for (const auto& [shards, workers, good] : std::vector<std::tuple<int, int, std::string>>{
           {8, 3, "1, 2, 4, 8"}, {12, 4, "1, 3, 6, 12"}, {12, 2, "1, 3, 6, 12"}, {8, 16, "1, 2, 4, 8"}}) {
    try {
      shards_per_worker(shards, workers);
      ADD_FAILURE() << "no error";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("worker counts that can: " + good + " ("), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace flotilla::test
