// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"

// checkpoint.every_s: what a crash leaves, and that saving by time changes nothing.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

Texts arguments(const std::string& deck, const std::string& output, const Texts& more) {
  Texts all = {"train",
               source_path("inputs/" + deck),
               "run.output=" + output,
               "device.threads=1",
               "run.log_every=40",
               "data.validation.images=",
               "data.validation.labels="};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string newest(const std::string& run_folder) {
  return find_newest_good(run_folder, [](const std::string&) {}).value_or("");
}

/// A deck and strategy, with the ranks that it trains on.
struct Training {
  const char* deck;
  int ranks;
  Texts overrides;
};

const std::vector<Training>& trainings() {
  const auto served = [](int workers, Texts more) {
    more.insert(more.end(), {"roles.kind=ratio", "roles.servers=1", "train.batch_size=32"});
    return Training{"mlp_parameter_server.toml", 1 + workers, std::move(more)};
  };
  const auto together = [](int ranks, Texts more) {
    more.insert(more.end(), {"train.global_batch_size=64", "optimizer.kind=momentum"});
    return Training{"mnist_mlp.toml", ranks, std::move(more)};
  };
  static const std::vector<Training> all = {
      together(2, {}),
      together(2, {"strategy.kind=local-sgd", "strategy.period=16"}),
      together(4, {"strategy.kind=adaptive-local-sgd", "strategy.rule=fleet2", "strategy.initial_period=8"}),
      served(2, {"server.mode=sync"}),
      served(1, {"server.mode=half-async", "server.push_every=4"}),
      served(1, {"server.mode=geo", "server.push_every=4"})};
  return all;
}

TEST(SavesByTime, ChangeNoBitOfTheModel) {
  for (const Training& training : trainings()) {
    const TemporaryFolder folder;
    Texts overrides = training.overrides;
    overrides.insert(overrides.end(), {"train.epochs=0", "train.steps=100", "checkpoint.keep=1000"});
    const Texts without = arguments(training.deck, folder.path("without"), overrides);
    Texts with = arguments(training.deck, folder.path("with"), overrides);
    // The pauses make 100 steps take 0.1 s on the fastest machine.
    with.insert(with.end(), {"checkpoint.every_s=0.03", "run.emulate_straggler.rank=0",
                             "run.emulate_straggler.pause_s=0.001"});

    const Result expected = flotilla(training.ranks, without);
    const Result found = flotilla(training.ranks, with);

    ASSERT_EQ(expected.exit_code, 0) << expected.errors;
    ASSERT_EQ(found.exit_code, 0) << found.errors;
    EXPECT_EQ(metrics(folder.path("without"), "checkpoint").size(), 1U);
    EXPECT_GT(metrics(folder.path("with"), "checkpoint").size(), 1U) << training.overrides[0];
    EXPECT_EQ(read_checkpoint(newest(folder.path("with"))).values,
              read_checkpoint(newest(folder.path("without"))).values)
        << training.overrides[0];
  }
}

TEST(SavesByTime, LeaveAKilledRunAPlaceToGoOnFromToTheSameBits) {
  const TemporaryFolder folder;
  const Texts overrides = {"train.epochs=1", "train.global_batch_size=64"};
  ASSERT_EQ(flotilla(2, arguments("mnist_mlp.toml", folder.path("whole"), overrides)).exit_code, 0);
  Texts slow = arguments("mnist_mlp.toml", folder.path("killed"), overrides);
  slow.insert(slow.end(), {"checkpoint.every_s=0.05", "run.emulate_straggler.rank=0",
                           "run.emulate_straggler.pause_s=0.01"});
  {
    Program program(flotilla_command(2, slow));
    const std::vector<pid_t> ranks = rank_processes(program.pid(), 2);
    while (newest(folder.path("killed")).empty() && runs(ranks[1])) usleep(10'000);
    kill(ranks[1], SIGKILL);
    EXPECT_NE(program.wait().exit_code, 0);
  }

  const Result resumed = flotilla(2, arguments("mnist_mlp.toml", folder.path("killed"), overrides));

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("resumed      from"), std::string::npos) << resumed.output;
  EXPECT_EQ(read_checkpoint(newest(folder.path("killed"))).values,
            read_checkpoint(newest(folder.path("whole"))).values);
}

/// Workers whose paces differ save after one and the same step, as a checkpoint with parts of all needs.
TEST(SavesByTime, AreOfOneStepWhereWorkersDoNotWaitForEachOther) {
  for (const Texts& mode : {Texts{"server.mode=async"}, Texts{"server.mode=geo", "server.push_every=3"}}) {
    const TemporaryFolder folder;
    Texts overrides = mode;
    overrides.insert(overrides.end(),
                     {"roles.kind=ratio", "roles.servers=1", "train.batch_size=32", "train.epochs=1",
                      "checkpoint.every_s=0.05", "checkpoint.keep=1000", "run.emulate_straggler.rank=1",
                      "run.emulate_straggler.pause_s=0.003"});

    const Result result = flotilla(4, arguments("mlp_parameter_server.toml", folder.path("run"), overrides));

    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_GT(metrics(folder.path("run"), "checkpoint").size(), 2U) << mode[0];
    for (const auto& saved : metrics(folder.path("run"), "checkpoint"))
      EXPECT_NO_THROW(read_checkpoint(saved.at("path")));
  }
}

}  // namespace
}  // namespace flotilla::test
