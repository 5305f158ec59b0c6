// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"

// Local SGD as a user runs it: interrupted, gone on with by as many or other workers, asked to stop.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

Texts arguments(const std::string& output, const Texts& more) {
  Texts all = {"train",
               source_path("inputs/mnist_mlp.toml"),
               "run.output=" + output,
               "device.threads=1",
               "train.global_batch_size=60",
               "run.log_every=40",
               "optimizer.kind=momentum",
               "schedule.learning_rate=0.05"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// An average is sent after every tenth step, and takes effect eight steps later.
Texts streaming() {
  return {"strategy.kind=local-sgd",
          "strategy.period=20",
          "strategy.fragments=2",
          "strategy.overlap_steps=8",
          "strategy.mix=0.5",
          "strategy.outer.kind=nesterov",
          "strategy.outer.momentum=0.9",
          "strategy.outer.learning_rate=0.7"};
}

/// The changes of a period travel during the next one.
Texts eager() {
  return {"strategy.kind=local-sgd",      "strategy.period=16",          "strategy.eager=true",
          "strategy.outer.kind=nesterov", "strategy.outer.momentum=0.9", "strategy.outer.learning_rate=0.7"};
}

Texts operator+(Texts one, const Texts& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

struct Strategy {
  Texts keys;
  std::vector<int> ranks;  ///< Numbers of ranks that stop and go on
  bool killed = false;     ///< Two ranks are also killed
};

const std::vector<Strategy>& strategies() {
  const Texts plain = {"strategy.kind=local-sgd", "strategy.period=16"};
  static const std::vector<Strategy> all = {
      {plain, {1, 2, 4}, true},
      {plain + Texts{"strategy.outer.kind=momentum", "strategy.outer.momentum=0.5"}, {2, 4}},
      {{"strategy.kind=adaptive-local-sgd", "strategy.rule=fleet2", "strategy.initial_period=64"},
       {1, 2, 4},
       true},
      {plain + Texts{"strategy.wire=fp4"}, {2}},
      {streaming(), {1, 2, 4}, true},
      {streaming() + Texts{"strategy.wire=int8"}, {1, 3}},
      {streaming() + Texts{"strategy.wire=fp4", "strategy.wire_rounding=stochastic"}, {2, 4}, true},
      {eager(), {1, 2, 3}, true},
      {eager() + Texts{"strategy.wire=int8"}, {4}}};
  return all;
}

/// The run until the step `until`.
Result run_until(int ranks, Texts run, std::int64_t until) {
  run.emplace_back("train.steps=" + std::to_string(until));
  return flotilla(ranks, run);
}

TEST(LocalSgdRuns, SayThatALinkIsEmulatedAndWhatWasSent) {
  const TemporaryFolder folder;
  const Texts link = {"run.emulate_link.gbit_s=0.5", "run.emulate_link.latency_us=50", "train.steps=32"};
  Texts texts = arguments(folder.path("run"), {"strategy.kind=local-sgd", "strategy.period=16"});
  texts.insert(texts.end(), link.begin(), link.end());

  const Result run = flotilla(2, texts);

  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.output.find("emulated by run.emulate_link, for all-reduces: 0.5 Gbit/s, latency 50 us"),
            std::string::npos)
      << run.output;
  EXPECT_NE(run.output.find("communication: worker 0 sent"), std::string::npos) << run.output;
  const nlohmann::json start = first_metrics(folder.path("run"), "start");
  EXPECT_EQ(start.at("all_reduce"), "mpi, emulated link: 0.5 Gbit/s, latency 50 us");
  const nlohmann::json end = last_metrics(folder.path("run"), "end");
  EXPECT_GE(end.at("sent_parameters_bytes"), 2 * 4 * start.at("parameters").get<std::int64_t>());
  EXPECT_GT(end.at("exposed_comm_s"), 0.0);

  texts.emplace_back("strategy.all_reduce=shared-memory");
  texts.emplace_back("run.resume=never");
  texts[2] = "run.output=" + folder.path("refused");
  const Result refused = flotilla(2, texts);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("and run.emulate_link exclude each other"), std::string::npos)
      << refused.errors;
}

// An average or a change is on its way after step 75 where there are some.
TEST(LocalSgdRuns, GiveTheBitsOfTheUninterruptedRunFromTheMiddleOfAPeriod) {
  for (const auto& [strategy, numbers_of_ranks, killed] : strategies()) {
    for (const int ranks : numbers_of_ranks) {
      const TemporaryFolder folder;
      const Texts parts = arguments(folder.path("parts"), strategy);
      ASSERT_EQ(run_until(ranks, arguments(folder.path("whole"), strategy), 130).exit_code, 0);
      ASSERT_EQ(run_until(ranks, parts, 75).exit_code, 0);

      const Result resumed = run_until(ranks, parts, 130);

      ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
      EXPECT_NE(resumed.output.find("step 75"), std::string::npos) << resumed.output;
      const Snapshot expected = final_model(folder.path("whole"));
      const Snapshot found = final_model(folder.path("parts"));
      EXPECT_EQ(found.values, expected.values) << strategy.back() << " on " << ranks;
      EXPECT_EQ(found.state.numbers, expected.state.numbers);
    }
  }
}

TEST(LocalSgdRuns, GoOnFromCheckpointsThatDoNotSayWhoWasAlike) {
  const TemporaryFolder folder;
  Texts whole = arguments(folder.path("whole"), strategies()[0].keys);
  Texts parts = arguments(folder.path("parts"), strategies()[0].keys);
  whole.emplace_back("train.steps=60");
  ASSERT_EQ(flotilla(2, whole).exit_code, 0);
  parts.emplace_back("train.steps=40");
  ASSERT_EQ(flotilla(2, parts).exit_code, 0);
  const std::string file = find_newest_good(folder.path("parts"), [](const std::string&) {}).value();
  Snapshot old = read_checkpoint(file);
  ASSERT_EQ(old.state.numbers.erase("alike") + old.state.numbers.erase("parameters_alike"), 2U);
  write_checkpoint_file(file, old);
  parts.back() = "train.steps=60";

  const Result resumed = flotilla(2, parts);

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(final_model(folder.path("parts")).values, final_model(folder.path("whole")).values);
}

/// Removes the newest checkpoints of a run until the newest is of the middle of a period, and of a step after
/// which something is on its way where there is such a thing, as if the run had been killed that much
/// earlier.
/// @returns its step.
std::int64_t go_back_into_a_period(const std::string& run_folder) {
  for (;;) {
    const std::string newest = find_newest_good(run_folder, [](const std::string&) {}).value();
    const CheckpointState state = read_checkpoint(newest).state;
    const auto lands_at = state.numbers.find("lands_at");
    const bool flies = lands_at == state.numbers.end() || lands_at->second > 0.0;
    if (flies && state.numbers.at("period.last_averaging") != static_cast<double>(state.step))
      return state.step;
    fs::remove(newest);
  }
}

// The killed run has no limit, so that it cannot end before the kill; it determines how far the others go.
TEST(LocalSgdRuns, GiveTheBitsOfTheUninterruptedRunAfterAKillInTheMiddleOfAPeriod) {
  for (std::size_t lost = 0; const auto& [strategy, numbers_of_ranks, killed] : strategies()) {
    if (!killed) continue;
    const TemporaryFolder folder;
    Texts run = arguments(folder.path("run"), strategy);
    run.insert(run.end(),
               {"train.epochs=100000", "validation.every=0", "checkpoint.every=13", "checkpoint.keep=1000"});
    {
      Program program(flotilla_command(2, run));
      const std::vector<pid_t> ranks = rank_processes(program.pid(), 2);
      while (metrics(folder.path("run"), "checkpoint").size() < 2)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      kill(ranks[lost++ % 2], SIGKILL);
      EXPECT_NE(program.wait().exit_code, 0);
    }
    const std::int64_t step = go_back_into_a_period(folder.path("run"));
    run.emplace_back("train.steps=" + std::to_string(step + 70));
    Texts whole = run;
    whole[2] = "run.output=" + folder.path("whole");
    ASSERT_EQ(flotilla(2, whole).exit_code, 0);

    const Result resumed = flotilla(2, run);

    ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_NE(resumed.output.find(", step " + std::to_string(step) + ", epoch "), std::string::npos)
        << resumed.output;
    const Snapshot expected = final_model(folder.path("whole"));
    const Snapshot found = final_model(folder.path("run"));
    EXPECT_EQ(found.values, expected.values) << strategy.back();
    EXPECT_EQ(found.state.numbers, expected.state.numbers);
    EXPECT_EQ(found.state.position, expected.state.position);
  }
}

TEST(LocalSgdRuns, GiveTheSameBitsFromWithinTheStepsTakenTogether) {
  for (const std::string wire : {"float32", "bfloat16"}) {
    const TemporaryFolder folder;
    const Texts strategy = {"strategy.kind=local-sgd",   "strategy.period=8",
                            "strategy.begin_step=30",    "strategy.before_begin=all-reduce",
                            "strategy.all_reduce=mpi",   "strategy.wire=" + wire,
                            "train.global_batch_size=63"};
    Texts whole = arguments(folder.path("whole"), strategy);
    Texts parts = arguments(folder.path("parts"), strategy);
    whole.emplace_back("train.steps=60");
    ASSERT_EQ(flotilla(3, whole).exit_code, 0);
    for (const std::string steps : {"17", "35", "60"}) {
      Texts until = parts;
      until.emplace_back("train.steps=" + steps);
      ASSERT_EQ(flotilla(3, until).exit_code, 0);
    }

    EXPECT_EQ(final_model(folder.path("parts")).values, final_model(folder.path("whole")).values) << wire;
  }
}

TEST(ScaledWireRuns, GiveTheBitsOfTheUninterruptedRunWithAllReduce) {
  for (const std::string wire : {"int8", "fp8", "fp4"}) {
    const TemporaryFolder folder;
    Texts whole = arguments(folder.path("whole"), {"strategy.wire=" + wire, "strategy.bucket_mb=0.1"});
    Texts parts = arguments(folder.path("parts"), {"strategy.wire=" + wire, "strategy.bucket_mb=0.1"});
    whole.emplace_back("train.steps=60");
    const Result uninterrupted = flotilla(2, whole);
    ASSERT_EQ(uninterrupted.exit_code, 0) << uninterrupted.errors;
    parts.emplace_back("train.steps=23");
    ASSERT_EQ(flotilla(2, parts).exit_code, 0);
    parts.back() = "train.steps=60";

    const Result resumed = flotilla(2, parts);

    ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_EQ(final_model(folder.path("parts")).values, final_model(folder.path("whole")).values) << wire;
  }
}

TEST(ScaledWireRuns, BeginWithoutErrorsWhereTheCheckpointsWireLeftNone) {
  for (const std::string kind : {"all-reduce", "local-sgd"}) {
    const TemporaryFolder folder;
    Texts run = arguments(folder.path("run"), {"strategy.kind=" + kind, "train.steps=20"});
    if (kind == "local-sgd") run.emplace_back("strategy.period=8");
    ASSERT_EQ(flotilla(2, run).exit_code, 0);
    for (const std::string wire : {"int8", "fp4", "float32"}) {
      run.emplace_back("strategy.wire=" + wire);
      run.emplace_back("train.steps=" + std::to_string(wire == "int8" ? 30 : wire == "fp4" ? 40 : 50));

      const Result resumed = flotilla(2, run);

      ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
    }
  }
}

TEST(LocalSgdRuns, GoOnWithAnotherStrategyFromTheModel) {
  const TemporaryFolder folder;
  Texts run = arguments(folder.path("run"), {"train.steps=40"});
  ASSERT_EQ(flotilla(2, run).exit_code, 0);
  run.back() = "train.steps=60";
  run.insert(run.end(), {"strategy.kind=local-sgd", "strategy.period=8", "strategy.outer.kind=nesterov",
                         "strategy.outer.momentum=0.9"});

  const Result resumed = flotilla(2, run);

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("it is of strategy.kind = \"all-reduce\""), std::string::npos)
      << resumed.output;
  EXPECT_EQ(final_model(folder.path("run")).state.numbers.at("period.last_averaging"), 56.0);
}

TEST(LocalSgdRuns, GoOnFromTheConsensusWithOtherWorkers) {
  const TemporaryFolder folder;
  Texts run = arguments(folder.path("run"), strategies()[0].keys);
  run.emplace_back("train.epochs=2");
  ASSERT_EQ(flotilla(4, run).exit_code, 0);
  run.back() = "train.epochs=3";

  const Result resumed = flotilla(2, run);

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("the checkpoint is of 4 workers"), std::string::npos) << resumed.output;
  const auto validations = metrics(folder.path("run"), "validation");
  const double before = validations[1].at("accuracy_top1").get<double>();
  EXPECT_GT(validations[2].at("accuracy_top1").get<double>(), before - 0.01);
}

TEST(LocalSgdRuns, GoOnAsAChangedDeckSays) {
  const TemporaryFolder folder;
  Texts run = arguments(folder.path("run"), {"run.agreement_every=1", "strategy.kind=local-sgd",
                                             "strategy.period=1000", "train.steps=40"});
  ASSERT_EQ(flotilla(2, run).exit_code, 0);
  run.resize(run.size() - 2);
  run.insert(run.end(), {"strategy.period=7", "train.steps=74"});
  Texts later = run;
  later.insert(later.end(), {"strategy.before_begin=all-reduce", "strategy.begin_step=90"});
  later[later.size() - 3] = "train.steps=110";

  const Result shorter = flotilla(2, run);
  const Result together = flotilla(2, later);

  ASSERT_EQ(shorter.exit_code, 0) << shorter.errors;
  EXPECT_EQ(count(shorter.output, "period       from this deck: period = 7, "), 1) << shorter.output;
  ASSERT_EQ(together.exit_code, 0) << together.errors;
  EXPECT_EQ(count(together.output, "all workers begin with the checkpoint's one model"), 1)
      << together.output;
  // Averagings are after step 41, as 40 had passed, then every 7 steps; after step 90 again, and 97, 104.
  EXPECT_EQ(metrics(folder.path("run"), "step")[1].at("period"), 7);
  EXPECT_EQ(final_model(folder.path("run")).state.numbers.at("period.last_averaging"), 104.0);
}

TEST(LocalSgdRuns, StopWithoutWaitingForTheirNextAveraging) {
  const TemporaryFolder folder;
  const Texts run =
      arguments(folder.path("run"), {"strategy.kind=local-sgd", "strategy.period=100000000",
                                     "train.epochs=100000", "validation.every=0", "run.log_every=157"});
  Program program(flotilla_command(2, run));
  for (int i = 0; i < 3000 && metrics(folder.path("run"), "step").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::vector<pid_t> ranks = rank_processes(program.pid(), 2);

  kill(ranks.back(), SIGUSR1);  // one of them hears of it first
  const Result stopped = program.wait();

  EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
  EXPECT_EQ(last_metrics(folder.path("run"), "end").at("reason"), "stopped");
  Texts on = run;
  on.emplace_back(
      "train.steps=" +
      std::to_string(last_metrics(folder.path("run"), "end").at("step").get<std::int64_t>() + 50));
  EXPECT_EQ(flotilla(2, on).exit_code, 0);
}

TEST(LocalSgdRuns, StopWhereGroupsTakeStepsTogether) {
  struct Case {
    int ranks;
    std::string per_group;
    std::string micro_steps;
  };
  for (const Case& one : {Case{2, "2", "1"}, Case{3, "2", "2"}, Case{4, "2", "1"}}) {
    const TemporaryFolder folder;

    // Only rank 0 reads the clock, so it always learns of the limit first.
    const Result stopped = flotilla(
        one.ranks,
        arguments(folder.path("run"),
                  {"strategy.kind=local-sgd", "strategy.period=100000000", "strategy.group_all_reduce=true",
                   "strategy.ranks_per_group=" + one.per_group, "train.global_batch_size=48",
                   "train.accumulate_steps=" + one.micro_steps, "run.time_limit_s=0.5",
                   "run.log_every=100000", "train.epochs=100000", "validation.every=0"}));

    EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
    EXPECT_EQ(last_metrics(folder.path("run"), "end").at("reason"), "time limit");
  }
}

TEST(LocalSgdRuns, StopWhereTheSlowestWorkerHearsOfItFirst) {
  const TemporaryFolder folder;

  // Rank 0 alone looks at the clock. While it is in its step, rank 1 would soon wait in anything collective.
  const Result stopped = flotilla(
      2,
      arguments(folder.path("run"), {"strategy.kind=local-sgd", "strategy.period=10", "run.time_limit_s=2.5",
                                     "run.log_every=100000", "train.epochs=100000", "validation.every=0",
                                     "run.watchdog_s=20", "run.emulate_straggler.rank=0",
                                     "run.emulate_straggler.pause_s=0.2", "run.emulate_straggler.every=1"}));

  EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
  EXPECT_EQ(last_metrics(folder.path("run"), "end").at("reason"), "time limit");
}

TEST(LocalSgdRuns, StopWhileAnAverageIsOnItsWay) {
  for (const auto& [slow, strategy] :
       {std::pair<std::string, Texts>("0", streaming()), {"1", streaming()}, {"1", eager()}}) {
    const TemporaryFolder folder;
    Texts run = arguments(folder.path("run"), strategy);
    run.insert(run.end(), {"run.time_limit_s=2.5", "run.log_every=100000", "train.epochs=100000",
                           "validation.every=0", "run.watchdog_s=20", "run.emulate_straggler.rank=" + slow,
                           "run.emulate_straggler.pause_s=0.1", "run.emulate_straggler.every=1"});

    // The other worker soon waits for an average that the slow one has not sent yet.
    const Result stopped = flotilla(2, run);

    EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
    EXPECT_EQ(last_metrics(folder.path("run"), "end").at("reason"), "time limit");
  }
}

TEST(LocalSgdRuns, HaveTheSameBitsHoweverLongAnAverageIsOnItsWay) {
  const TemporaryFolder folder;
  std::vector<Snapshot> models;
  for (const Texts& pause : {Texts{},
                             Texts{"run.emulate_straggler.rank=0", "run.emulate_straggler.pause_s=0.05",
                                   "run.emulate_straggler.every=7"},
                             Texts{"run.emulate_straggler.rank=2", "run.emulate_straggler.pause_s=0.02",
                                   "run.emulate_straggler.every=1"}}) {
    const std::string output = folder.path("run" + std::to_string(models.size()));
    Texts run = arguments(output, streaming());
    run.insert(run.end(), pause.begin(), pause.end());
    run.insert(run.end(), {"train.global_batch_size=63", "train.steps=64"});
    const Result result = flotilla(3, run);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    models.push_back(final_model(output));
  }

  EXPECT_EQ(models[1].values, models[0].values);
  EXPECT_EQ(models[2].values, models[0].values);
}

TEST(LocalSgdRuns, WaitLongerThanTheWatchdogForAWorkerThatGoesOn) {
  const TemporaryFolder folder;
  const Texts run =
      arguments(folder.path("run"),
                {"strategy.kind=local-sgd", "strategy.period=40", "run.log_every=40", "train.steps=40",
                 "run.watchdog_s=1", "run.emulate_straggler.rank=1", "run.emulate_straggler.pause_s=0.1"});

  const Result result = flotilla(2, run);

  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST(LocalSgdRuns, TellEveryChangeOfThePeriodWithItsNumbers) {
  const TemporaryFolder folder;
  Texts run = arguments(folder.path("run"), strategies()[2].keys);
  run.emplace_back("train.steps=150");
  run.emplace_back("--verbose");

  const Result result = flotilla(2, run);

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("period       64 → "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("(at first 0.05)"), std::string::npos) << result.output;
  for (const auto& step : metrics(folder.path("run"), "step")) EXPECT_LE(step.at("period"), 64);
}

TEST(LocalSgdRuns, EndAJobInWhichOneWorkerDiverges) {
  const TemporaryFolder folder;
  const Texts run = arguments(folder.path("run"), {"strategy.kind=local-sgd", "strategy.period=1000",
                                                   "schedule.learning_rate=1e30", "train.epochs=1"});

  const Result result = flotilla(2, run);

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("training diverged"), std::string::npos) << result.errors;
  EXPECT_FALSE(find_newest_good(folder.path("run"), [](const std::string&) {}).has_value());
}

}  // namespace
}  // namespace flotilla::test
