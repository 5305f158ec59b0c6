// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "src/commands/job_scopes.hpp"
#include "tests/support/within.hpp"
#include "tests/train/plain_values.hpp"

// Parameter servers in one process per rank: what they give is what the workers would have had without them.

namespace flotilla {
namespace {

using test::TrainingRun;
using Texts = std::vector<std::string>;
using test::operator+;

const std::string deck_text = R"(
[model]
kind = "mlp"
widths = [96, 40]
activation = "tanh"
classes = 5
[data]
kind = "random"
shape = [30]
[data.train]
samples = 240
[train]
steps = 1000
batch_size = 8
[optimizer]
kind = "sgd"
[schedule]
learning_rate = 0.05
[run]
output = "/nowhere"
)";

Texts served_by(int servers, const Texts& more = {}) {
  return Texts{"strategy.kind=parameter-server", "roles.kind=ratio",
               "roles.servers=" + std::to_string(servers), "server.min_block_size=64"} +
         more;
}

mpi::Communicator world() {
  return mpi::Communicator::world();
}

/// Calls `body` on the workers, with their communicator, while the others serve as the deck says.
void with_roles(const Texts& served, const std::function<void(const mpi::Communicator&, ServerLink&)>& body,
                const std::string& text = deck_text) {
  const mpi::Communicator all = world();
  const LoadedDeck deck =
      load_deck({.path = "test.toml", .text = text, .overrides = TrainingRun::with_defaults(served)});
  FailureHandler failure(all.rank(), all.size(), "test");
  mpi::Watchdog watchdog(0.0, nullptr);
  JobRoles roles(deck.config, all, failure, watchdog);
  if (roles.is_server())
    roles.serve();
  else
    body(roles.workers(), *roles.servers());
}

std::vector<float> after(TrainingRun& run, int steps) {
  for (int i = 0; i < steps; ++i) run.step();
  return run.parameters();
}

/// The parameters after a training by workers alone.
std::vector<float> without_servers(const mpi::Communicator& workers, const Texts& more, int steps,
                                   const std::string& text = deck_text) {
  TrainingRun run(workers.collective_clone(), text, Texts{"strategy.all_reduce=mpi"} + more);
  return after(run, steps);
}

const std::vector<Texts>& optimizers() {
  static const std::vector<Texts> all = {
      {"optimizer.kind=sgd"},
      {"optimizer.kind=momentum", "optimizer.weight_decay=0.001", "optimizer.no_decay=['biases']"},
      {"optimizer.kind=adam", "schedule.learning_rate=0.001"}};
  return all;
}

const std::vector<Texts>& placements() {
  static const std::vector<Texts> all = {{},
                                         {"server.slice_parameters=false", "server.shared_memory=false"},
                                         // Messages of 256 values.
                                         {"server.shared_memory=false", "server.part_kb=1"},
                                         {"server.split=hash-name"}};
  return all;
}

/// What rounding comes to, as a part of the parameters: each step rounds them and a sum over three workers.
double rounding(int steps) {
  return 4 * steps * test::float_rounding;
}

TEST(ParameterServer, SyncGivesWhatAllReduceGives) {
  const int ranks = world().size();
  for (int servers = 1; servers < ranks; ++servers) {
    for (const Texts& optimizer : optimizers()) {
      std::vector<float> expected;  // of these workers, whatever their servers
      for (const Texts& placement : placements()) {
        const Texts served = served_by(servers, optimizer + placement);
        with_roles(served, [&](const mpi::Communicator& workers, ServerLink& link) {
          if (expected.empty()) expected = without_servers(workers, optimizer, 100);
          TrainingRun run(workers.collective_clone(), deck_text, served, nullptr, &link);

          const std::vector<float> parameters = after(run, 100);

          // Two summands have no order: the same bits.
          if (workers.size() <= 2) {
            EXPECT_EQ(parameters, expected) << servers << " servers";
          } else {
            EXPECT_TRUE(test::within(test::relative_difference(parameters, expected), 0.0, rounding(100)))
                << servers << " servers";
          }
        });
      }
    }
  }
}

TEST(ParameterServer, SyncClipsByTheNormOverAllServers) {
  const int ranks = world().size();
  const Texts clip = {"train.gradient_clip_norm=0.05"};
  for (int servers = 1; servers < ranks; ++servers) {
    const Texts served = served_by(servers, clip);
    with_roles(served, [&](const mpi::Communicator& workers, ServerLink& link) {
      const std::vector<float> expected = without_servers(workers, clip, 50);
      const std::vector<float> unclipped = without_servers(workers, {}, 50);
      TrainingRun run(workers.collective_clone(), deck_text, served, nullptr, &link);

      const std::vector<float> parameters = after(run, 50);

      EXPECT_TRUE(test::within(test::relative_difference(parameters, expected), 0.0, rounding(50)));
      EXPECT_GT(test::relative_difference(parameters, unclipped), 1e-4);
    });
  }
}

TEST(ParameterServer, SyncKnowsTheNormsOfTensorsThatServersShare) {
  const int ranks = world().size();
  for (const char* kind : {"lars", "lamb"}) {
    // A rate at which rounding does not grow.
    const Texts optimizer = {cat("optimizer.kind=", kind), "optimizer.weight_decay=0.01",
                             "optimizer.no_decay=['biases']", "schedule.learning_rate=0.001"};
    for (int servers = 1; servers < ranks; ++servers) {
      const Texts served = served_by(servers, optimizer);
      with_roles(served, [&](const mpi::Communicator& workers, ServerLink& link) {
        const std::vector<float> expected = without_servers(workers, optimizer, 100);
        TrainingRun run(workers.collective_clone(), deck_text, served, nullptr, &link);

        EXPECT_TRUE(test::within(test::relative_difference(after(run, 100), expected), 0.0, rounding(100)))
            << kind << ", " << servers << " servers";
      });
    }
  }
}

TEST(ParameterServer, SyncKeepsAResidualNetworksStatistics) {
  const int ranks = world().size();
  const int servers = ranks > 4 ? ranks / 2 : 1;
  const Texts small = {"schedule.learning_rate=0.0001", "train.global_batch_size=12"};
  // Statistics, 38 KB, take several messages.
  const Texts served = served_by(servers, small + Texts{"server.shared_memory=false", "server.part_kb=4"});
  const auto body = [&](const mpi::Communicator& workers, ServerLink& link) {
    TrainingRun plain(workers.collective_clone(), test::resnet_deck,
                      Texts{"strategy.all_reduce=mpi"} + small);
    TrainingRun run(workers.collective_clone(), test::resnet_deck, served, nullptr, &link);

    const std::vector<float> expected = after(plain, 3);
    const std::vector<float> parameters = after(run, 3);

    EXPECT_TRUE(test::within(test::relative_difference(parameters, expected), 0.0, 1e-5));
    EXPECT_TRUE(test::within(test::relative_difference(run.statistics(), plain.statistics()), 0.0, 1e-5));
  };
  with_roles(served, body, test::resnet_deck);
}

TEST(ParameterServer, SharedMemoryAndMessagesOfAnySizeGiveTheSameBits) {
  const int servers = world().size() - 1;
  const std::vector<Texts> modes = {
      {"server.mode=sync"}, {"server.mode=async"}, {"server.mode=geo", "server.push_every=3"}};
  const std::vector<Texts> ways = {{"server.shared_memory=true"},
                                   {"server.shared_memory=false", "server.part_kb=1000"},
                                   {"server.shared_memory=false", "server.part_kb=1"}};
  for (const Texts& mode : modes) {
    for (const char* wire : {"server.wire=float32", "server.wire=bfloat16"}) {
      std::vector<std::vector<float>> parameters;
      for (const Texts& way : ways) {
        const Texts served = served_by(servers, Texts{wire} + mode + way);
        with_roles(served, [&](const mpi::Communicator& workers, ServerLink& link) {
          TrainingRun run(workers.collective_clone(), deck_text, served, nullptr, &link);
          parameters.push_back(after(run, 20));
        });
      }
      for (const auto& others : parameters) EXPECT_EQ(others, parameters[0]) << mode[0] << ", " << wire;
    }
  }
}

/// The values in the order of files after some steps of the workers; empty on servers.
std::vector<float> plain_after(const Texts& served, int steps, const std::string& text) {
  std::vector<float> values;
  const auto body = [&](const mpi::Communicator& workers, ServerLink& link) {
    TrainingRun run(workers.collective_clone(), text, served, nullptr, &link);
    for (int i = 0; i < steps; ++i) run.step();
    values = test::plain_values(run, run.parts.sync.strategy->consensus());
    run.parts.sync.strategy->state();
  };
  with_roles(served, body, text);
  return values;
}

// Servers compute on processors, whatever the workers do.
TEST(ParameterServer, ServesADeviceWithMemoryOfItsOwnAlike) {
  const int ranks = world().size();
  const Texts one_place = {"server.push_every=3", "optimizer.kind=adam", "schedule.learning_rate=0.001"};
  for (int servers = 1; servers < ranks; ++servers) {
    for (const std::string mode : {"sync", "async", "half-async", "geo"}) {
      if (mode != "sync" && servers != ranks - 1) continue;  // what several workers do has no one outcome
      for (const std::string shared : {"true", "false"}) {
        if (shared == "false" && mode != "sync") continue;
        const Texts served =
            served_by(servers, Texts{"server.mode=" + mode, "server.shared_memory=" + shared}) +
            (mode == "half-async" || mode == "geo" ? one_place : Texts{});

        const std::vector<float> expected = plain_after(served, 9, deck_text);
        const std::vector<float> values = plain_after(served + Texts{"device.kind=reference"}, 9, deck_text);

        if (!expected.empty()) {
          EXPECT_TRUE(test::within(test::relative_difference(values, expected), 0.0, rounding(9)))
              << mode << ", " << servers << " servers";
        }
      }
    }
  }
}

TEST(ParameterServer, OneWorkerAsyncGivesWhatSyncGives) {
  const int ranks = world().size();
  for (const Texts& optimizer : optimizers()) {
    const Texts served = served_by(ranks - 1, optimizer + Texts{"server.mode=async"});
    with_roles(served, [&](const mpi::Communicator& workers, ServerLink& link) {
      const std::vector<float> expected = without_servers(workers, optimizer, 100);
      TrainingRun run(workers.collective_clone(), deck_text, served, nullptr, &link);

      EXPECT_EQ(after(run, 100), expected);
    });
  }
}

TEST(ParameterServer, OneWorkerGeoGivesWhatTrainingAloneGives) {
  const int ranks = world().size();
  for (const Texts& optimizer : optimizers()) {
    const Texts served = served_by(ranks - 1, optimizer + Texts{"server.mode=geo", "server.push_every=7"});
    with_roles(served, [&](const mpi::Communicator& workers, ServerLink& link) {
      const std::vector<float> expected = without_servers(workers, optimizer, 100);
      TrainingRun run(workers.collective_clone(), deck_text, served, nullptr, &link);

      EXPECT_EQ(after(run, 100), expected);
    });
  }
}

TEST(ParameterServer, OneWorkerHalfAsyncTakesStepsOfMergedBatches) {
  const int ranks = world().size();
  // An epoch of 32 steps: at its end a worker pushes whatever it has.
  const Texts samples = {"data.train.samples=256"};
  const Texts served = served_by(ranks - 1, samples + Texts{"server.mode=half-async", "server.push_every=4"});
  with_roles(served, [&](const mpi::Communicator& workers, ServerLink& link) {
    const std::vector<float> expected =
        without_servers(workers, samples + Texts{"train.accumulate_steps=4"}, 20);
    TrainingRun run(workers.collective_clone(), deck_text, served, nullptr, &link);

    EXPECT_TRUE(test::within(test::relative_difference(after(run, 80), expected), 0.0, rounding(80)));
  });
}

TEST(ParameterServer, WorkersThatDoNotWaitStillLearn) {
  const std::vector<Texts> modes = {
      {"server.mode=async"},
      {"server.mode=async", "server.max_staleness=1"},
      {"server.mode=async", "server.wire=bfloat16"},
      {"server.mode=half-async", "server.push_every=3"},
      {"server.mode=geo", "server.push_every=5", "optimizer.kind=momentum", "schedule.learning_rate=0.002"}};
  for (const Texts& mode : modes) {
    const Texts served = served_by(1, Texts{"data.train.samples=48", "train.batch_size=4"} + mode);
    with_roles(served, [&](const mpi::Communicator& workers, ServerLink& link) {
      TrainingRun run(workers.collective_clone(), deck_text, served, nullptr, &link);
      const double first = run.step().loss;

      for (int i = 1; i < 380; ++i) run.step();
      double last = 0.0;
      for (int i = 0; i < 20; ++i) last += run.step().loss / 20.0;

      EXPECT_LT(last, 0.9 * first) << mode.front();
    });
  }
}

}  // namespace
}  // namespace flotilla
