// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <thread>

#include "src/checkpoint/checkpoint.hpp"
#include "tests/runs/program.hpp"

// What happens when a rank dies, hangs or cannot write.

namespace flotilla::testing {
namespace {

std::vector<std::string> arguments(const std::string& output, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"train",
                                  source_path("inputs/mnist_mlp.toml"),
                                  "run.output=" + output,
                                  "device.threads=1",
                                  "train.batch_size=32",
                                  "run.log_every=10"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Fault, AStoppedRankIsNamedByTheWatchdog) {
  for (const char* all_reduce : {"shared-memory", "mpi"}) {
    TemporaryFolder folder;
    Program program(flotilla_command(
        2, arguments(folder.path("run"),
                     {"train.epochs=100000", "run.watchdog_s=2",
                      std::string("strategy.all_reduce=") + all_reduce, "checkpoint.every=50"})));
    const std::vector<pid_t> ranks = rank_processes(program.pid(), 2);
    for (int i = 0; i < 3000 && metrics(folder.path("run"), "step").empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));

    kill(ranks[1], SIGSTOP);
    const Result result = program.wait();

    EXPECT_EQ(result.exit_code, 3) << result.errors;
    EXPECT_NE(result.errors.find("flotilla: rank 0"), std::string::npos) << result.errors;
    EXPECT_NE(result.errors.find("all-reduce"), std::string::npos) << result.errors;
    const auto failure = nlohmann::json::parse(read_file(folder.path("run") + "/failure.json"));
    EXPECT_EQ(failure.at("rank"), 0);
    kill(ranks[1], SIGKILL);
  }
}

TEST(Fault, AKilledRankEndsTheJobAndLeavesNoSharedMemory) {
  TemporaryFolder folder;
  Program program(flotilla_command(2, arguments(folder.path("run"), {"train.epochs=100000"})));
  const std::vector<pid_t> ranks = rank_processes(program.pid(), 2);

  kill(ranks[0], SIGKILL);
  const Result result = program.wait();

  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(kill(ranks[1], 0), 0) << "rank 1 still runs";
}

/// The program with a limit on the size of the files that it may write, which acts like a full disk.
std::vector<std::string> with_small_files(const std::string& kilobytes, std::vector<std::string> command) {
  std::string shell = "ulimit -f " + kilobytes + "; exec \"$0\" \"$@\"";
  command.insert(command.begin(), {"bash", "-c", shell});
  return command;
}

TEST(Fault, AFullDiskWhileSavingKeepsTheLastGoodCheckpoint) {
  TemporaryFolder folder;
  ASSERT_EQ(flotilla(1, arguments(folder.path("run"), {"train.steps=10"})).exit_code, 0);

  const Result full = run(with_small_files(
      "1000", flotilla_command(1, arguments(folder.path("run"), {"train.steps=40", "checkpoint.every=10"}))));

  EXPECT_EQ(full.exit_code, 2) << full.errors;
  EXPECT_NE(full.errors.find("step-00000020.h5"), std::string::npos) << full.errors;
  EXPECT_NE(full.errors.find("last checkpoint could not be written"), std::string::npos) << full.errors;
  EXPECT_EQ(metrics(folder.path("run"), "step").back().at("step"), 40) << "training went on";
  const auto newest = find_newest_good(folder.path("run"), [](const std::string&) {});
  ASSERT_TRUE(newest.has_value());
  EXPECT_NE(newest->find("step-00000010.h5"), std::string::npos);
  int files = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(folder.path("run") + "/checkpoints"))
    ++files;
  EXPECT_EQ(files, 1) << "half-written files are left";
}

TEST(Fault, DivergenceStopsWithTheStepAndSavesNothing) {
  TemporaryFolder folder;

  const Result result =
      flotilla(2, arguments(folder.path("run"), {"train.steps=500", "optimizer.kind=sgd",
                                                 "model.activation=relu", "schedule.learning_rate=1e30"}));

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("diverged"), std::string::npos) << result.errors;
  EXPECT_FALSE(find_newest_good(folder.path("run"), [](const std::string&) {}).has_value());
}

}  // namespace
}  // namespace flotilla::testing
