// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cuda/fake/cudart.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/train/training_run.hpp"

// Synchronised batch norm of workers on fake GPUs: over NCCL, on the GPUs, and over MPI, through the host.

namespace flotilla::test {
namespace {

using Overrides = std::vector<std::string>;

/// Three norms whose gradients lie in several buckets, so that sums are on their way during backward.
const std::string layers_deck = R"(
[model]
kind = "layers"
layers = ["conv 8 3 no_bias", "batch_norm", "relu", "conv 16 3 no_bias", "batch_norm", "relu",
          "residual", "conv 16 3 no_bias padding 1", "batch_norm", "end", "relu", "flatten", "linear 4"]
classes = 4
batch_norm = "synchronised"
[device]
kind = "cuda"
[data]
kind = "random"
shape = [3, 8, 8]
[data.train]
samples = 96
[train]
steps = 1000
global_batch_size = 24
[strategy]
bucket_mb = 0.004
last_bucket_mb = 0.001
[optimizer]
kind = "momentum"
[schedule]
learning_rate = 0.01
)";

const Overrides by_nccl = {"strategy.all_reduce=nccl"};
const Overrides by_the_host = {"strategy.all_reduce=mpi"};

class SynchronisedNorms : public OnGpu {
 protected:
  static void SetUpTestSuite() {
    setenv("FLOTILLA_FAKE_GPUS", std::to_string(mpi::Communicator::world().size()).c_str(), 1);
  }
};

/// What some steps of a training leave.
struct Trained {
  std::vector<double> losses{};
  std::vector<float> parameters{};
  std::vector<float> statistics{};
};

Trained train(const Overrides& overrides) {
  TrainingRun run(mpi::Communicator::world(), layers_deck, overrides);
  Trained left;
  for (int step = 0; step < 6; ++step) left.losses.push_back(run.step().loss);
  left.parameters = run.parameters();
  left.statistics = run.statistics();
  return left;
}

TEST_F(SynchronisedNorms, HaveTheBitsOfTheHostsWay) {
  Overrides groups;
  if (mpi::Communicator::world().size() == 4) groups = {"model.batch_norm_group=2"};
  for (const char* precision : {"float32", "float16", "bfloat16"}) {
    const Overrides deck = groups + Overrides{cat("device.precision=", precision)};
    const Trained host = train(deck + by_the_host);
    for (const char* graphs : {"false", "true"}) {
      SCOPED_TRACE(cat(precision, ", graphs: ", graphs));

      const Trained nccl = train(deck + by_nccl + Overrides{cat("device.graphs=", graphs)});

      EXPECT_EQ(nccl.losses, host.losses);
      EXPECT_EQ(nccl.parameters, host.parameters);
      EXPECT_EQ(nccl.statistics, host.statistics);
    }
  }
}

/// Waits of the host in the third step.
std::int64_t waits(const std::string& deck, const Overrides& overrides) {
  TrainingRun run(mpi::Communicator::world(), deck, overrides);
  run.step();
  run.step();
  const std::int64_t before = fake::done().waits;
  run.step();
  const std::int64_t waits = fake::done().waits - before;
  run.parts.machine.device->queue().synchronize();
  return waits;
}

TEST_F(SynchronisedNorms, MakeTheHostWaitOnlyWhereItExchangesItself) {
  const Overrides local = {"model.batch_norm=local"};
  const Overrides resnet = {"device.kind=cuda", "data.shape=[3,8,8]", "train.global_batch_size=24",
                            "model.batch_norm=synchronised"};

  EXPECT_EQ(waits(layers_deck, by_nccl), waits(layers_deck, by_nccl + local));
  // For three norms, forward and backward, a copy to the host and one back.
  EXPECT_EQ(waits(layers_deck, by_the_host), waits(layers_deck, by_the_host + local) + 3 * 2 * 2);
  if (mpi::Communicator::world().size() > 2) return;  // as on two, but slow
  EXPECT_EQ(waits(resnet_deck, resnet + by_nccl), waits(resnet_deck, resnet + by_nccl + local));
}

/// NCCL's own work is launched between the graphs, which hold all the rest but a few lists of a call or two.
TEST_F(SynchronisedNorms, CutAStepIntoGraphs) {
  if (mpi::Communicator::world().size() > 2) GTEST_SKIP() << "as on two, but slow";
  TrainingRun run(mpi::Communicator::world(), resnet_deck,
                  Overrides{"device.kind=cuda", "data.shape=[3,8,8]", "train.global_batch_size=24",
                            "model.batch_norm=synchronised", "device.graphs=true"} +
                      by_nccl);
  for (int step = 0; step < 5; ++step) run.step();
  const fake::Done before = fake::done();
  run.step();
  const fake::Done after = fake::done();
  run.parts.machine.device->queue().synchronize();

  EXPECT_GT(after.graphs - before.graphs, 20) << "norms";
  EXPECT_LT(20 * (after.alone - before.alone), after.in_graphs - before.in_graphs);
}

}  // namespace
}  // namespace flotilla::test
