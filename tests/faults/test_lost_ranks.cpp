// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/faults/small_run.hpp"
#include "tests/runs/program.hpp"

// Ranks that are killed, or stopped for a while, at moments that matter; clocks that jump; checkpoints that
// are damaged. tests/runs/test_faults.cpp loses ranks in the middle of training.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

std::string newest_of(const std::string& output) {
  return find_newest_good(output, [](const std::string& text) { ADD_FAILURE() << text; }).value_or("");
}

struct Death {
  const char* strategy;
  const char* call;  ///< The call in which a rank dies, as "rank call number"
};

/// A training in which a rank dies while it saves.
class DeathInSaving : public testing::TestWithParam<Death> {};

INSTANTIATE_TEST_SUITE_P(Calls, DeathInSaving,
                         testing::Values(Death{"all-reduce", "0 write 30"}, Death{"all-reduce", "0 rename 2"},
                                         Death{"local-sgd", "0 rename 4"}, Death{"local-sgd", "1 rename 2"}));

TEST_P(DeathInSaving, LosesNoCheckpointThatWasReportedAndLeavesNoneHalf) {
  const TemporaryFolder folder;
  const std::string output = folder.path("run");
  const Texts run =
      small_run(output, {"train.epochs=100000", std::string("strategy.kind=") + GetParam().strategy,
                         std::string("strategy.period=8")});
  Texts keys = run;
  if (GetParam().strategy == std::string("all-reduce")) keys.pop_back();

  const Result killed = flotilla::test::run(with_library(
      flotilla_command(2, keys), DIE_AT_CALL, {std::string("FLOTILLA_TEST_DIE_AT=") + GetParam().call}));

  expect_killed(killed);
  const auto saved = metrics(output, "checkpoint");
  const std::string newest = newest_of(output);
  EXPECT_GE(newest, saved.empty() ? "" : saved.back().at("path").get<std::string>());
  const std::int64_t step = newest.empty() ? 0 : read_checkpoint(newest).state.step;
  keys.push_back("train.steps=" + std::to_string(step + 45));
  const Result resumed = flotilla(2, keys);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  for (const auto& entry : fs::recursive_directory_iterator(output))
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
  keys[2] = "run.output=" + folder.path("whole");
  ASSERT_EQ(flotilla(2, keys).exit_code, 0);
  EXPECT_EQ(final_model(output).values, final_model(folder.path("whole")).values);
}

TEST(LostRank, BeforeTheFirstStepCostsNothing) {
  const TemporaryFolder folder;
  for (const int rank : {0, 1}) {
    Program program(flotilla_command(2, small_run(folder.path("run"), {"train.steps=40"})));

    kill(rank_processes(program.pid(), 2)[static_cast<std::size_t>(rank)], SIGKILL);
    const Result killed = program.wait();

    EXPECT_NE(killed.exit_code, 0);
  }
  const Result again = flotilla(2, small_run(folder.path("run"), {"train.steps=40"}));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
}

TEST(LostRank, InValidationIsNamed) {
  const TemporaryFolder folder;
  const std::string output = folder.path("run");
  // Validations of four times the samples that an epoch has.
  Texts run = small_run(output, {"train.epochs=100000", "run.watchdog_s=60", "checkpoint.every=0"});
  run.insert(run.end(),
             {"data.validation.images=" + source_path("inputs/data/mnist/train-images-idx3-ubyte.gz"),
              "data.validation.labels=" + source_path("inputs/data/mnist/train-labels-idx1-ubyte.gz"),
              "train.global_batch_size=5000"});
  Program program(in_environment({"OMPI_MCA_odls_base_sigkill_timeout=3"}, flotilla_command(2, run)));
  ASSERT_TRUE(wait_until([&] { return metrics(output, "validation").size() >= 2; }));

  kill(rank_processes(program.pid(), 2)[1], SIGKILL);
  const Result killed = program.wait();

  expect_killed(killed);
  if (!launcher_killed_at_once(killed)) {
    EXPECT_NE(killed.errors.find("rank 1 on "), std::string::npos) << killed.errors;
    EXPECT_NE(killed.errors.find("does not answer"), std::string::npos) << killed.errors;
  }
}

TEST(StoppedRank, ThatGoesOnWithinTheLimitChangesNothing) {
  const TemporaryFolder folder;
  const Texts more = {"train.steps=800", "run.watchdog_s=20"};
  ASSERT_EQ(flotilla(2, small_run(folder.path("whole"), more)).exit_code, 0);
  Program program(flotilla_command(2, small_run(folder.path("run"), more)));
  const std::vector<pid_t> ranks = rank_processes(program.pid(), 2);
  ASSERT_TRUE(wait_until([&] { return !metrics(folder.path("run"), "step").empty(); }));

  for (const pid_t rank : ranks) {
    kill(rank, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    kill(rank, SIGCONT);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const Result result = program.wait();

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors.find("flotilla:"), std::string::npos) << result.errors;
  EXPECT_EQ(final_model(folder.path("run")).values, final_model(folder.path("whole")).values);
}

// Each save takes longer than a hang may, and the second one waits for the first.
TEST(SlowDisk, IsNoHang) {
  const TemporaryFolder folder;
  const Texts keys = small_run(folder.path("run"), {"train.steps=30", "run.watchdog_s=5"});

  const Result result =
      run(with_library(flotilla_command(2, keys), DIE_AT_CALL, {"FLOTILLA_TEST_SLOW_WRITES=400"}));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_GT(first_metrics(folder.path("run"), "checkpoint").at("write_s").get<double>(), 5.0);
}

// A checkpoint that is read back, to verify it, is read one piece after the other.
TEST(SlowDisk, IsNoHangWhileACheckpointIsVerified) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("slow"));
  const Texts keys = small_run(folder.path("slow/run"), {"train.steps=20", "run.watchdog_s=3"});

  const Result result =
      run(with_library(flotilla_command(2, keys), DIE_AT_CALL, {"FLOTILLA_TEST_SLOW_READS=0 900"}));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_GT(first_metrics(folder.path("slow/run"), "checkpoint").at("write_s").get<double>(), 5.0);
}

TEST(WallClock, ThatJumpsChangesNothing) {
  const TemporaryFolder folder;
  const Texts more = {"train.steps=800", "run.watchdog_s=20", "run.time_limit_s=600"};
  ASSERT_EQ(flotilla(2, small_run(folder.path("whole"), more)).exit_code, 0);

  const Result result =
      run(with_library(flotilla_command(2, small_run(folder.path("run"), more)), WRONG_CLOCK, {}));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors.find("flotilla:"), std::string::npos) << result.errors;
  EXPECT_EQ(final_model(folder.path("run")).values, final_model(folder.path("whole")).values);
  const auto steps = metrics(folder.path("run"), "step");
  double longest_jump_s = 0.0;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    longest_jump_s = std::max(
        longest_jump_s, std::abs(steps[i].at("time").get<double>() - steps[i - 1].at("time").get<double>()));
    EXPECT_LT(steps[i].at("step_s").get<double>(), 60.0);
    EXPECT_GT(steps[i].at("step_s").get<double>(), 0.0);
  }
  EXPECT_GT(longest_jump_s, 3600.0) << "the clock did not jump";
}

TEST(WallClock, ThatJumpsIsNoTimeLimitAndNoHang) {
  const TemporaryFolder folder;
  Program program(with_library(
      flotilla_command(2, small_run(folder.path("run"),
                                    {"train.epochs=100000", "run.time_limit_s=3600", "run.watchdog_s=3600"})),
      WRONG_CLOCK, {}));
  ASSERT_TRUE(wait_until([&] { return metrics(folder.path("run"), "checkpoint").size() > 5; }));
  kill(program.pid(), SIGUSR1);

  EXPECT_EQ(program.wait().exit_code, 75);
  EXPECT_EQ(last_metrics(folder.path("run"), "end").at("reason"), "stopped");
}

/// What may happen to a file of the newest checkpoint.
struct Damage {
  const char* file;  ///< Below checkpoints/
  void (*harm)(const std::string& path);
  const char* says;
};

class DamagedCheckpoint : public testing::TestWithParam<Damage> {};

void flip(const std::string& path) {
  std::string bytes = read_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(path, bytes);
}
void empty(const std::string& path) {
  fs::resize_file(path, 0);
}
void remove(const std::string& path) {
  fs::remove(path);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DamagedCheckpoint,
    testing::Values(Damage{"step-00000040.h5", flip, "checksum"},
                    Damage{"step-00000040.h5", empty, "damaged"},
                    Damage{"step-00000040.parts/worker-0001.h5", flip, "checksum"},
                    Damage{"step-00000040.parts/worker-0001.h5", empty, "worker-0001.h5"},
                    Damage{"step-00000040.parts/worker-0000.h5", remove, "No such file"}));

TEST_P(DamagedCheckpoint, IsToldOfAndTheOneBeforeIsUsed) {
  const TemporaryFolder folder;
  const std::string output = folder.path("run");
  const auto until = [&](const char* steps) {
    return small_run(output, {"strategy.kind=local-sgd", "strategy.period=8", "checkpoint.every=13", steps});
  };
  ASSERT_EQ(flotilla(2, until("train.steps=40")).exit_code, 0);

  GetParam().harm(output + "/checkpoints/" + GetParam().file);
  const Result resumed = flotilla(2, until("train.steps=60"));

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  const std::size_t line =
      resumed.errors.find("flotilla: warning: checkpoint '" + output +
                          "/checkpoints/step-00000040.h5' is damaged and was passed over");
  ASSERT_NE(line, std::string::npos) << resumed.errors;
  EXPECT_NE(resumed.errors.find(GetParam().says, line), std::string::npos) << resumed.errors;
  EXPECT_NE(resumed.output.find("step 39, epoch"), std::string::npos) << resumed.output;
}

}  // namespace
}  // namespace flotilla::test
