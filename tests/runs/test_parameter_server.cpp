// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "src/checkpoint/checkpoint.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"

// Parameter servers as a user runs them: other numbers of servers, stops, lost ranks, mistakes.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

Texts arguments(const std::string& output, const Texts& more) {
  Texts all = {"train",
               source_path("inputs/mlp_parameter_server.toml"),
               "run.output=" + output,
               "device.threads=1",
               "train.batch_size=32",
               "run.log_every=40",
               "server.min_block_size=1000"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Texts with_servers(int servers, const Texts& more) {
  Texts all = {"roles.kind=ratio", "roles.servers=" + std::to_string(servers)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void wait_for_a_step(const std::string& run_folder) {
  while (metrics(run_folder, "step").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(ParameterServerRuns, GoOnWithOtherServersToTheSameBits) {
  for (const std::string optimizer : {"adam", "momentum"}) {
    const TemporaryFolder folder;
    const Texts sync = {"server.mode=sync", "optimizer.kind=" + optimizer};
    const auto until = [&](const std::string& output, int servers, const std::string& steps) {
      Texts run = arguments(folder.path(output), with_servers(servers, sync));
      run.push_back("train.steps=" + steps);
      const Result result = flotilla(servers + 2, run);
      ASSERT_EQ(result.exit_code, 0) << result.errors;
    };
    until("whole", 3, "90");
    until("parts", 3, "30");
    until("parts", 2, "60");
    until("parts", 5, "90");

    EXPECT_EQ(final_model(folder.path("parts")).values, final_model(folder.path("whole")).values);
  }
}

TEST(ParameterServerRuns, ExchangeCheckpointsWithAllReduce) {
  const TemporaryFolder folder;
  Texts served = arguments(folder.path("run"), {"server.mode=sync", "train.steps=40"});
  ASSERT_EQ(flotilla(4, served).exit_code, 0);
  const Texts alone = {"train",
                       source_path("inputs/mnist_mlp.toml"),
                       "run.output=" + folder.path("run"),
                       "device.threads=1",
                       "train.batch_size=32",
                       "train.steps=80"};
  ASSERT_EQ(flotilla(2, alone).exit_code, 0);
  served.back() = "train.steps=120";
  ASSERT_EQ(flotilla(4, served).exit_code, 0);
  Texts whole = arguments(folder.path("whole"), {"server.mode=sync", "train.steps=120"});
  ASSERT_EQ(flotilla(4, whole).exit_code, 0);

  EXPECT_EQ(final_model(folder.path("run")).values, final_model(folder.path("whole")).values);
  EXPECT_EQ(flotilla(1, {"evaluate", folder.path("run")}).exit_code, 0);
}

TEST(ParameterServerRuns, OneGeoWorkerIsNotChangedByAnInterruption) {
  const TemporaryFolder folder;
  const Texts geo = {"server.mode=geo", "server.push_every=7", "optimizer.kind=momentum",
                     "schedule.learning_rate=0.01"};
  Texts whole = arguments(folder.path("whole"), geo);
  Texts parts = arguments(folder.path("parts"), geo);
  whole.emplace_back("train.steps=90");
  ASSERT_EQ(flotilla(2, whole).exit_code, 0);
  for (const std::string steps : {"31", "90"}) {
    Texts until = parts;
    until.push_back("train.steps=" + steps);
    const Result result = flotilla(2, until);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }

  // The worker's own: what the servers have differs from it by the rounding of the pushes.
  const std::string part = "/checkpoints/step-00000090.parts/worker-0000.h5";
  EXPECT_EQ(read_checkpoint(folder.path("parts") + part).values,
            read_checkpoint(folder.path("whole") + part).values);
}

/// "staleness" of the run's reports.
std::vector<double> staleness_of(int ranks, const Texts& more) {
  const TemporaryFolder folder;
  Texts run = arguments(folder.path("run"), more);
  run.insert(run.end(), {"train.steps=120", "validation.every=0"});
  const Result result = flotilla(ranks, run);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  std::vector<double> found;
  for (const auto& step : metrics(folder.path("run"), "step"))
    if (step.contains("staleness")) found.push_back(step.at("staleness"));
  return found;
}

TEST(ParameterServerRuns, ReportTheStalenessOfPushes) {
  EXPECT_TRUE(staleness_of(4, {"server.mode=sync"}).empty());
  EXPECT_EQ(staleness_of(2, {"server.mode=async"}), (std::vector<double>{0.0, 0.0, 0.0})) << "one worker";
  // A report tells the mean since the one before: the first push of all lacks no update.
  const auto pipelined = staleness_of(2, {"server.mode=async", "server.pipeline=1"});
  ASSERT_EQ(pipelined.size(), 3U);
  EXPECT_EQ(pipelined[1], 1.0);
  EXPECT_GT(pipelined[0], 0.9);
  for (const Texts& mode :
       {Texts{"server.mode=async"}, Texts{"server.mode=half-async", "server.push_every=2"},
        Texts{"server.mode=geo", "server.push_every=2"}}) {
    Texts bounded = mode;
    bounded.emplace_back("server.max_staleness=1");
    const auto reports = staleness_of(4, bounded);
    ASSERT_EQ(reports.size(), 3U) << mode.front();
    for (const double staleness : reports) {
      EXPECT_GT(staleness, 0.0) << mode.front()
                                << ": two workers that push alternate at least once in 40 steps";
      // Two workers are at most two pushes apart, before one pulls and before it pushes next.
      EXPECT_LE(staleness, 4.0) << mode.front();
    }
  }
}

class ServerMode : public testing::TestWithParam<Texts> {};

INSTANTIATE_TEST_SUITE_P(
    Modes, ServerMode,
    testing::Values(Texts{"server.mode=sync"}, Texts{"server.mode=async"},
                    Texts{"server.mode=async", "server.max_staleness=2"},
                    Texts{"server.mode=async", "server.pipeline=1"},
                    Texts{"server.mode=async", "server.pipeline=1", "server.max_staleness=1",
                          "run.emulate_straggler.rank=1", "run.emulate_straggler.slow_factor=4"},
                    // The fast worker waits for the slow one, who hears first of a stop.
                    Texts{"server.mode=async", "server.max_staleness=1", "run.emulate_straggler.rank=1",
                          "run.emulate_straggler.slow_factor=4"},
                    Texts{"server.mode=half-async", "server.push_every=4"},
                    Texts{"server.mode=geo", "server.push_every=6"}));

TEST_P(ServerMode, StopsOnRequestAndGoesOn) {
  const TemporaryFolder folder;
  Texts run = arguments(folder.path("run"), GetParam());
  run.insert(run.end(), {"train.epochs=100000", "validation.every=0"});
  Program program(flotilla_command(4, run));
  wait_for_a_step(folder.path("run"));
  const std::vector<pid_t> ranks = rank_processes(program.pid(), 4);

  kill(ranks.back(), SIGUSR1);  // one worker hears of it first
  const Result stopped = program.wait();

  ASSERT_EQ(stopped.exit_code, 75) << stopped.errors;
  const auto end = last_metrics(folder.path("run"), "end");
  EXPECT_EQ(end.at("reason"), "stopped");
  run.push_back("train.steps=" + std::to_string(end.at("step").get<std::int64_t>() + 50));
  EXPECT_EQ(flotilla(4, run).exit_code, 0);
}

TEST_P(ServerMode, LearnsTheDigits) {
  const TemporaryFolder folder;
  Texts run = arguments(folder.path("run"), GetParam());
  run.emplace_back("train.epochs=3");
  run.emplace_back("--verbose");

  const Result result = flotilla(4, run);

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_GT(last_metrics(folder.path("run"), "validation").at("accuracy_top1").get<double>(), 0.87);
  EXPECT_NE(result.output.find("largest ÷ mean"), std::string::npos) << result.output;
  EXPECT_NE(read_file(folder.path("run") + "/roles.txt").find("server"), std::string::npos);
}

/// A slow worker must catch up with the furthest before all can stop after one step.
TEST(ParameterServerRuns, StopSoonHoweverSlowOneWorkerIs) {
  for (const Texts& mode :
       {Texts{"server.mode=async"}, Texts{"server.mode=half-async", "server.push_every=4"},
        Texts{"server.mode=geo", "server.push_every=4"}}) {
    const TemporaryFolder folder;
    Texts run = arguments(folder.path("run"), mode);
    run.insert(run.end(), {"roles.kind=ratio", "roles.servers=1", "train.epochs=0", "train.steps=100000",
                           "train.batch_size=1", "validation.every=0", "run.emulate_straggler.rank=1",
                           "run.emulate_straggler.pause_s=0.02"});
    Program program(flotilla_command(3, run));
    wait_for_a_step(folder.path("run"));
    std::this_thread::sleep_for(std::chrono::seconds(1));

    kill(program.pid(), SIGUSR1);
    const auto asked = std::chrono::steady_clock::now();
    const Result stopped = program.wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - asked;

    EXPECT_EQ(stopped.exit_code, 75) << mode[0] << stopped.errors;
    EXPECT_LT(taken.count(), 15.0) << mode[0];
    EXPECT_EQ(metrics(folder.path("run"), "checkpoint").size(), 1U) << mode[0];
  }
}

TEST(ParameterServerRuns, DoNotWaitForAWorkerThatPauses) {
  const TemporaryFolder folder;
  // Epochs without end: workers meet nowhere.
  const Texts run =
      arguments(folder.path("run"),
                {"server.mode=async", "server.max_staleness=0", "checkpoint.every_s=0", "train.steps=1000000",
                 "validation.every=0", "data.kind=random", "data.shape=784", "data.train.samples=1000000000",
                 "train.batch_size=1", "run.log_every=10", "run.watchdog_s=60"});
  Program program(flotilla_command(4, run));
  wait_for_a_step(folder.path("run"));
  const std::vector<pid_t> ranks = rank_processes(program.pid(), 4);
  const auto steps_so_far = [&] {
    return last_metrics(folder.path("run"), "step").at("step").get<std::int64_t>();
  };

  kill(ranks[3], SIGSTOP);  // worker 1
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::int64_t before = steps_so_far();
  // A worker that waited would be ended by the watchdog.
  while (runs(ranks[2]) && steps_so_far() < before + 200)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::int64_t after = steps_so_far();
  kill(ranks[3], SIGCONT);

  EXPECT_GE(after, before + 200);
}

/// The second moments of Adam, which worker 0 alone fetches to save them, are infinite long before the loss
/// is.
TEST(ParameterServerRuns, EndAsDivergedWhereOnlyASlotIsNotFinite) {
  const TemporaryFolder folder;

  const Result result =
      flotilla(4, arguments(folder.path("run"),
                            with_servers(2, {"server.mode=sync", "model.activation=relu", "data.std=1e-25",
                                             "optimizer.kind=adam", "checkpoint.every=4"})));

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("is not finite after step 4"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("training diverged"), std::string::npos) << result.errors;
}

TEST(ParameterServerRuns, NameAServerOrWorkerThatHangs) {
  const std::vector<std::pair<std::size_t, Texts>> cases = {
      {2, {"server.mode=sync"}}, {3, {"server.mode=sync"}}, {2, {"server.mode=async", "server.pipeline=1"}}};
  for (const auto& [lost, mode] : cases) {
    const TemporaryFolder folder;
    Texts run = arguments(folder.path("run"), mode);
    run.insert(run.end(), {"train.epochs=100000", "validation.every=0", "run.watchdog_s=3"});
    Program program(flotilla_command(4, run));
    wait_for_a_step(folder.path("run"));
    const std::vector<pid_t> ranks = rank_processes(program.pid(), 4);

    kill(ranks[lost], SIGSTOP);
    const Result result = program.wait();

    EXPECT_EQ(result.exit_code, 3) << result.errors;
    EXPECT_NE(result.errors.find("rank " + std::to_string(lost)), std::string::npos) << result.errors;
    // The launcher's last kill may still be under way; a rank that stays makes this test hang.
    for (const pid_t rank : ranks)
      while (runs(rank)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST(ParameterServerRuns, NameAServerOrWorkerThatIsKilled) {
  const std::vector<std::pair<std::size_t, Texts>> cases = {
      {2, {"server.mode=sync"}}, {3, {"server.mode=sync"}}, {2, {"server.mode=async", "server.pipeline=1"}}};
  for (const auto& [lost, mode] : cases) {
    const TemporaryFolder folder;
    Texts run = arguments(folder.path("run"), mode);
    run.insert(run.end(), {"train.epochs=100000", "validation.every=0", "run.watchdog_s=60"});
    // The launcher asks the others to end, and kills them so many seconds later: the machine may be busy.
    Program program(in_environment({"OMPI_MCA_odls_base_sigkill_timeout=3"}, flotilla_command(4, run)));
    wait_for_a_step(folder.path("run"));

    kill(rank_processes(program.pid(), 4)[lost], SIGKILL);
    const Result result = program.wait();

    expect_killed(result);
    if (launcher_killed_at_once(result)) continue;
    EXPECT_NE(result.errors.find("rank " + std::to_string(lost) + " on "), std::string::npos)
        << result.errors;
    EXPECT_NE(result.errors.find("does not answer"), std::string::npos) << result.errors;
  }
}

TEST(ParameterServerRuns, RefuseRolesThatCannotBe) {
  struct Case {
    int ranks;
    Texts more;
    std::string says;
  };
  const std::vector<Case> cases = {
      {3, {}, "even number"},
      {1, {}, "roles.kind"},
      {2, {"roles.kind=ratio", "roles.servers=2"}, "roles.servers"},
      {2, {"roles.kind=ratio"}, "roles.servers"},
      {4, {"roles.kind=user-defined", "roles.server_ranks=0,9"}, "roles.server_ranks"},
      {4, {"roles.kind=user-defined", "roles.server_ranks=0,0"}, "roles.server_ranks"},
      {4, {"roles.kind=user-defined", "roles.server_ranks=0-3"}, "roles"},
      {4, {"roles.kind=user-defined", "roles.server_ranks=0", "roles.worker_ranks=1,2"}, "roles"},
      {2, {"roles.kind=collective"}, "roles.kind"},
      {2, {"server.mode=geo"}, "server.push_every"},
      {2, {"server.mode=async", "train.gradient_clip_norm=1"}, "train.gradient_clip_norm"},
      {2, {"server.mode=sync", "server.pipeline=1"}, "server.pipeline"},
      {2, {"server.mode=geo", "server.push_every=4", "server.pipeline=1"}, "server.pipeline"},
      {2, {"server.mode=async", "server.pipeline=2"}, "server.pipeline"},
      {2, {"optimizer.kind=lars", "optimizer.momentum=0.9"}, "slice_parameters"},
      {2, {"data.train.images=/nowhere/at/all"}, "/nowhere/at/all"},
      {2, {"train.batch_size=100000"}, "batch"}};
  for (const Case& one : cases) {
    const TemporaryFolder folder;

    const Result result = flotilla(one.ranks, arguments(folder.path("run"), one.more));

    EXPECT_EQ(result.exit_code, 2) << one.says << result.errors;
    EXPECT_NE(result.errors.find(one.says), std::string::npos) << result.errors;
    const int of_lists = count(result.errors, "flotilla:   ");  // mistakes below "the deck has 1 mistake:"
    EXPECT_EQ(count(result.errors, "flotilla:") - of_lists, 1) << result.errors;
  }
}

TEST(ParameterServerRuns, CheckShowsWhoOwnsWhat) {
  const Result result = flotilla(4, arguments("/nowhere", {"--check"}));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("server 1:"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("the deck is good"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace flotilla::test
