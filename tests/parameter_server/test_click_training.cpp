// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>

#include "kernels/cpu/native_precisions.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/host_staging.hpp"
#include "src/commands/job_scopes.hpp"
#include "src/parameter_server/server/row_store.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"
#include "tests/train/plain_values.hpp"

// A click model whose rows live on servers: how many they are and how the work is shared out must not matter.

namespace flotilla {
namespace {

using test::TrainingRun;
using Texts = std::vector<std::string>;
using test::operator+;

const std::string deck_text = R"(
[model]
kind = "ctr-dnn"
embedding_width = 4
embedding_scale = 0.1
widths = [16]
[data]
kind = "libsvm"
hash_buckets = 0
[train]
steps = 1000
[optimizer]
kind = "adagrad"
[schedule]
learning_rate = 0.05
[strategy]
kind = "parameter-server"
[roles]
kind = "ratio"
[run]
output = "/nowhere"
)";

constexpr double rate = 0.05;  ///< Learning rate of the deck

constexpr std::size_t saved_after = 20;  ///< Steps, two epochs

/// What takes the steps, and whether the state is asked for after `saved_after` of them.
enum class How { by_the_program, saving, delayed_here };

/// 240 samples of up to five of 40 ids; a click is likelier with some of them.
class ClickTraining : public testing::Test {
 protected:
  ClickTraining() : world_(mpi::Communicator::world()) {
    std::string path = folder_.path("clicks");
    world_.broadcast(path);
    if (world_.is_root()) write_samples(path);
    world_.barrier();
    path_ = path;
  }
  ~ClickTraining() override { world_.barrier(); }

  static void write_samples(const std::string& path) {
    std::ofstream file(path);
    std::uint64_t state = 1;
    const auto draw = [&state](std::uint64_t below) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return (state >> 33) % below;
    };
    for (int sample = 0; sample < 240; ++sample) {
      std::uint64_t sum = 0;
      std::string ids;
      std::uint64_t id = 0;
      for (std::uint64_t i = 0; i < 1 + draw(5); ++i) {
        id += 1 + draw(8);
        sum += id % 3;
        ids += " " + std::to_string(id) + ":" + (draw(2) == 0 ? "1" : "0.5");
      }
      file << (sum > 3 ? "+1" : "-1") << ids << "\n";
    }
  }

  Texts served(int servers, const Texts& more) const {
    return TrainingRun::with_defaults(
        Texts{"data.train.path=" + path_, "roles.servers=" + std::to_string(servers)} + more);
  }

  /// Dense parameters and the losses of all steps, on the workers; empty on servers.
  std::vector<float> train(const mpi::Communicator& ranks, int servers, const Texts& more, int steps,
                           How how = How::by_the_program) const {
    const Texts overrides = served(servers, more);
    const LoadedDeck deck = load_deck({.path = "test.toml", .text = deck_text, .overrides = overrides});
    FailureHandler failure(ranks.rank(), ranks.size(), "test");
    std::vector<float> result;
    mpi::Watchdog watchdog(0.0, nullptr);
    JobRoles roles(deck.config, ranks, failure, watchdog);
    if (roles.is_server()) {
      roles.serve();
      return result;
    }
    TrainingRun run(roles.workers().collective_clone(), deck_text, overrides, nullptr, roles.servers());
    if (how == How::delayed_here) return delayed(run, steps);
    for (std::size_t i = 0; i < static_cast<std::size_t>(steps); ++i) {
      result.push_back(static_cast<float>(run.step().loss));
      if (how == How::saving && i + 1 == saved_after) run.parts.sync.strategy->state();
    }
    for (const float value : test::plain_values(run, run.parts.model.weights)) result.push_back(value);
    return result;
  }

  /// The result of train() as server.pipeline = 1 means it, computed here alone with the parts of worker and
  /// server: a step's gradients are of dense parameters and rows that lack the update of the step before,
  /// except after the state was asked for. @param run begins, and takes no step itself
  static std::vector<float> delayed(TrainingRun& run, int steps) {
    RunParts& parts = run.parts;
    Network& network = *parts.model.network;
    Device& device = *parts.machine.device;
    const OptimizerConfig& rule = run.deck.config.optimizer;
    const DeviceSpan<float> used = parts.model.weights.parameters;
    Storage newest = device.memory().allocate(used.size());
    device.flat().copy(used, newest.span());
    const auto optimizer = make_optimizer(rule, network.layout(), device);
    RowStore store(run.deck.config);
    SparseTable& rows = store.table(0);
    const EmbeddingBagsSpec bags = bags_of(run.deck.config.model, *parts.data.training, network.batch());
    std::vector<EmbeddingPool> pools(2, EmbeddingPool(bags, false));
    const Batch* batch = &run.loader->next();
    pools[0].find(*batch);
    rows.pull(pools[0].keys(), pools[0].rows());
    std::vector<float> result;
    for (std::size_t step = 0; step < static_cast<std::size_t>(steps); ++step) {
      EmbeddingPool& now = pools[step % 2];
      EmbeddingPool& later = pools[(step + 1) % 2];
      parts.sync.sums->clear_header();
      network.forward(now.forward(*batch), batch->targets(), {Pass::training, step},
                      parts.sync.sums->loss_sums());
      network.backward(batch->targets(), parts.model.backward_scale(), [](std::int64_t) {});
      const std::span<const float> sums = host_span(parts.model.gradients());
      result.push_back(sums[sum_loss] / sums[sum_samples]);
      std::vector<float> gradients(now.rows().size());
      HostStaging staging(device, static_cast<std::size_t>(network.input_size()));
      now.backward(*batch, staging.read(network.input_gradient()), gradients);
      batch = &run.loader->next();
      later.find(*batch);
      const auto take = [&] {
        rows.pull(later.keys(), later.rows());
        device.flat().copy(newest.span(), used);
      };
      const bool saved = step + 1 == saved_after;
      if (!saved) take();
      optimizer->step(newest.span(), parameter_part(parts.model.gradients(), parts.model.weights), rate, 1.0);
      const RowGradients pushed{.keys = now.keys(), .values = gradients};
      rows.push(std::span(&pushed, 1), static_cast<float>(rate), 1.0F, optimizer->steps());
      if (saved) take();
    }
    for (const float value : test::plain_values(run, parts.model.weights)) result.push_back(value);
    return result;
  }

  /// The result of train() with one worker and one server, the last rank and the first. Empty on other ranks.
  std::vector<float> of_two_ranks(const Texts& more, int steps, How how = How::by_the_program) const {
    const bool takes_part = world_.rank() == 0 || world_.rank() == world_.size() - 1;
    const mpi::Communicator pair = world_.split(takes_part ? 0 : 1);
    return takes_part ? train(pair, 1, more, steps, how) : std::vector<float>();
  }

  bool is_last() const { return world_.rank() == world_.size() - 1; }

  mpi::Communicator world_;
  test::TemporaryFolder folder_;
  std::string path_;
};

/// 30 steps, each with a sum of 24 gradients, move values of at most 1.
constexpr double rounding = 30 * 24 * test::float_rounding;

TEST_F(ClickTraining, InBfloat16FollowsTheReference) {
  if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
  const Texts deck = {"train.batch_size=24", "device.precision=bfloat16"};
  const std::vector<float> found = of_two_ranks(deck + Texts{"device.kind=cpu"}, 10);
  const std::vector<float> expected = of_two_ranks(deck + Texts{"device.kind=reference"}, 10);
  const std::vector<float> unrounded = of_two_ranks({"train.batch_size=24", "device.kind=reference"}, 10);

  if (!expected.empty()) {
    EXPECT_TRUE(test::within(test::relative_difference(found, expected), 0.0,
                             0.25 * test::relative_difference(unrounded, expected)));
  }
}

TEST_F(ClickTraining, DoesNotDependOnTheNumberOfServers) {
  for (const std::string optimizer : {"sgd", "momentum", "adam", "adagrad"}) {
    const Texts deck = {"optimizer.kind=" + optimizer, "train.batch_size=24"};

    const std::vector<float> one = of_two_ranks(deck, 30);
    const std::vector<float> many = train(world_, world_.size() - 1, deck, 30);

    if (is_last()) {
      EXPECT_EQ(many, one) << optimizer;
    }
  }
}

TEST_F(ClickTraining, DoesNotDependOnTheNumberOfWorkersButForRounding) {
  const Texts deck = {"train.global_batch_size=24", "optimizer.kind=sgd"};

  const std::vector<float> one = of_two_ranks(deck, 30);
  const std::vector<float> many = train(world_, 1, deck, 30);

  if (is_last()) {
    EXPECT_TRUE(test::within(many, one, rounding));
  }
}

TEST_F(ClickTraining, OneAsyncWorkerIsASyncOne) {
  const Texts deck = {"train.batch_size=24"};

  const std::vector<float> sync = of_two_ranks(deck, 30);
  const std::vector<float> async = of_two_ranks(deck + Texts{"server.mode=async"}, 30);

  EXPECT_EQ(async, sync);
}

/// Workers meet after each epoch of 10 steps, which changes nothing. Several servers and small messages
/// change no bit.
TEST_F(ClickTraining, APipelineDelaysUpdatesByOneStep) {
  for (const std::string optimizer : {"sgd", "momentum", "adam"}) {
    const Texts deck = {"train.batch_size=24", "optimizer.kind=" + optimizer, "server.mode=async",
                        "server.pipeline=1",   "server.min_block_size=8",     "server.part_kb=1"};
    const std::vector<float> expected = of_two_ranks(deck, 35, How::delayed_here);

    EXPECT_EQ(of_two_ranks(deck, 35, How::saving), expected) << optimizer;
    EXPECT_EQ(of_two_ranks(deck + Texts{"server.shared_memory=false"}, 35, How::saving), expected)
        << optimizer;
    const std::vector<float> many = train(world_, world_.size() - 1, deck, 35, How::saving);
    if (is_last()) {
      EXPECT_EQ(many, expected) << optimizer;
    }
    const std::vector<float> undelayed = of_two_ranks(deck + Texts{"server.pipeline=0"}, 35);
    if (!expected.empty()) {
      EXPECT_NE(undelayed, expected) << optimizer;
    }
  }
}

TEST_F(ClickTraining, MergedBatchesAreOneLargeBatch) {
  const Texts sgd = {"optimizer.kind=sgd"};

  std::vector<float> merged =
      of_two_ranks(sgd + Texts{"server.mode=half-async", "server.push_every=3", "train.batch_size=8"}, 30);
  std::vector<float> large = of_two_ranks(sgd + Texts{"train.batch_size=24"}, 10);

  if (merged.empty()) return;
  merged.erase(merged.begin(), merged.begin() + 30);  // the losses of other batches
  large.erase(large.begin(), large.begin() + 10);
  EXPECT_TRUE(test::within(merged, large, rounding));
}

/// An epoch has 10 steps, so that pushes come before, at and after the end of one.
TEST_F(ClickTraining, OneGeoWorkerTrainsAsIfAlone) {
  for (const std::string optimizer : {"sgd", "momentum", "adam", "adagrad"}) {
    const Texts deck = {"optimizer.kind=" + optimizer, "train.batch_size=24"};
    const std::vector<float> alone = of_two_ranks(deck, 35);
    for (const std::string every : {"1", "4", "100"}) {
      const Texts geo = deck + Texts{"server.mode=geo", "server.push_every=" + every};

      EXPECT_EQ(of_two_ranks(geo, 35), alone) << optimizer << ", a push every " << every;
    }
  }
}

TEST_F(ClickTraining, GeoDoesNotDependOnTheNumberOfServers) {
  const Texts deck = {"train.batch_size=24", "server.mode=geo", "server.push_every=3"};

  const std::vector<float> one = of_two_ranks(deck, 30);
  const std::vector<float> many = train(world_, world_.size() - 1, deck, 30);

  if (is_last()) {
    EXPECT_EQ(many, one);
  }
}

TEST_F(ClickTraining, OnADeviceWithMemoryOfItsOwnIsTheSame) {
  const Texts deck = {"train.global_batch_size=24", "optimizer.kind=sgd"};
  const Texts far = {"device.kind=reference"};

  const std::vector<float> many = train(world_, 1, deck, 20);
  const std::vector<float> many_far = train(world_, 1, deck + far, 20);
  const std::vector<Texts> modes = {{"server.mode=async"},
                                    {"server.mode=async", "server.pipeline=1"},
                                    {"server.mode=half-async", "server.push_every=3"},
                                    {"server.mode=geo", "server.push_every=3"}};
  for (const Texts& mode : modes) {
    const Texts served = deck + mode;
    EXPECT_TRUE(test::within(of_two_ranks(served + far, 20), of_two_ranks(served, 20), rounding));
  }

  EXPECT_TRUE(test::within(many_far, many, rounding));
}

/// A gradient is off by a part in 2⁸ at most, and so are the rows that a worker computes with, not the
/// servers'. Where 30 gradients take turns, all of their ways are some times the way that is left.
TEST_F(ClickTraining, HalfWiresRoundWhatTravelsAndNothingElse) {
  const std::vector<Texts> modes = {{"server.mode=sync"}, {"server.mode=geo", "server.push_every=3"}};
  for (const Texts& mode : modes) {
    const Texts deck = mode + Texts{"train.batch_size=24", "optimizer.kind=sgd"};
    const std::vector<float> whole = of_two_ranks(deck, 30);
    const std::vector<float> still = of_two_ranks(deck + Texts{"schedule.learning_rate=1e-12"}, 30);
    for (const std::string wire : {"float16", "bfloat16"}) {
      const std::vector<float> half = of_two_ranks(deck + Texts{"server.wire=" + wire}, 30);

      ASSERT_EQ(half.size(), whole.size());
      if (half.empty()) continue;
      EXPECT_NE(half, whole) << wire;
      float moved = 0.0F;
      for (std::size_t i = 30; i < whole.size(); ++i) moved = std::max(moved, std::abs(whole[i] - still[i]));
      EXPECT_TRUE(test::within(half, whole, 10.0 * 0x1p-8 * moved));
    }
  }
}

TEST_F(ClickTraining, LearnsWhoClicks) {
  const std::vector<Texts> modes = {{"server.mode=sync"},
                                    {"server.mode=async"},
                                    {"server.mode=async", "server.pipeline=1"},
                                    {"server.mode=geo", "server.push_every=4", "schedule.learning_rate=0.1"}};
  for (const Texts& mode : modes) {
    const std::vector<float> run =
        train(world_, 1, Texts{"train.batch_size=8", "model.embeddings=per-slot"} + mode, 90);
    if (run.empty()) continue;
    EXPECT_LT(run[89] + run[88] + run[87], 0.7F * (run[0] + run[1] + run[2])) << mode.front();
  }
}

}  // namespace
}  // namespace flotilla
