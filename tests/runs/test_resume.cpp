// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Stopping and going on, with and without the program's consent.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> arguments(const std::string& output, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"train",
                                  source_path("inputs/mnist_mlp.toml"),
                                  "run.output=" + output,
                                  "device.threads=1",
                                  "train.global_batch_size=64",
                                  "run.log_every=10"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Waits until the run has reported a step.
void wait_for_steps(const std::string& run_folder) {
  for (int i = 0; i < 3000 && metrics(run_folder, "step").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// Waits until the run has reported a checkpoint that is newer than a file.
void wait_for_checkpoint_after(const std::string& run_folder, const std::string& file) {
  const auto is_newer = [&] {
    const auto saved = metrics(run_folder, "checkpoint");
    return !saved.empty() && saved.back().at("path").get<std::string>() > file;
  };
  for (int i = 0; i < 3000 && !is_newer(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(Resume, GivesTheBitsOfTheUninterruptedRunAfterAnyStep) {
  for (const int ranks : {1, 2}) {
    TemporaryFolder folder;
    ASSERT_EQ(flotilla(ranks, arguments(folder.path("whole"), {"train.steps=170"})).exit_code, 0);
    for (const int stop : {1, 57, 157, 160}) {  // 157 steps are an epoch
      const std::string output = folder.path("at" + std::to_string(stop));
      ASSERT_EQ(flotilla(ranks, arguments(output, {"train.steps=" + std::to_string(stop)})).exit_code, 0);

      const Result resumed = flotilla(ranks, arguments(output, {"train.steps=170"}));

      ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
      EXPECT_EQ(final_model(output).values, final_model(folder.path("whole")).values)
          << "stopped at " << stop;
      EXPECT_EQ(final_model(output).state.position, final_model(folder.path("whole")).state.position);
    }
  }
}

TEST(Resume, SeesTheSameSamplesOnAnotherNumberOfWorkers) {
  TemporaryFolder folder;
  ASSERT_EQ(flotilla(1, arguments(folder.path("whole"), {"train.steps=40"})).exit_code, 0);
  ASSERT_EQ(flotilla(4, arguments(folder.path("parts"), {"train.steps=20"})).exit_code, 0);

  const Result resumed = flotilla(2, arguments(folder.path("parts"), {"train.steps=40"}));

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  const auto expected = metrics(folder.path("whole"), "step");
  const auto found = metrics(folder.path("parts"), "step");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].at("step"), expected[i].at("step"));
    // The bound is that of test_train.cpp.
    EXPECT_TRUE(test::within(found[i].at("loss").get<double>(), expected[i].at("loss").get<double>(),
                             40 * 64 * float_rounding));
  }
}

TEST(Resume, CountsOnWithOtherBatchesAndOtherRanks) {
  // 10,000 samples: 157 steps an epoch at 64, 40 at 256, 313 at 32
  TemporaryFolder folder;
  const std::string output = folder.path("run");
  const auto train = [&](int ranks, int batch, const std::vector<std::string>& more) {
    std::vector<std::string> all = arguments(output, {"train.batch_size=" + std::to_string(batch),
                                                      "train.epochs=3", "run.log_every=1", "--verbose"});
    all.erase(std::ranges::find(all, "train.global_batch_size=64"));
    all.insert(all.end(), more.begin(), more.end());
    const Result result = flotilla(ranks, all);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.output;
  };

  const std::string first = train(2, 32, {"train.steps=200"});   // epoch 1, sample 2752
  const std::string second = train(4, 64, {"train.steps=210"});  // 10 steps of 256: sample 5312
  const std::string third = train(1, 32, {});                    // 147 steps to the epoch's end, 313 more
  const std::string fourth = train(2, 32, {});                   // It has ended

  EXPECT_EQ(count(first, "starting at step 0 of 200\n"), 1) << first;
  EXPECT_EQ(count(first, "[Epoch 1, batch 43] "), 1) << first;
  EXPECT_EQ(count(second, "resuming after step 200 of 210\n"), 1) << second;
  EXPECT_EQ(count(second, "[Epoch 1, batch 12] "), 1) << "28 of the epoch's 40 remain: " << second;
  EXPECT_EQ(count(second, "[Epoch 1, batch 21] "), 1) << second;
  EXPECT_EQ(count(third, "resuming after step 210 of 670\n"), 1) << third;
  EXPECT_EQ(count(third, "[Epoch 1, batch 167] "), 1) << third;
  EXPECT_EQ(count(third, "[Epoch 1, batch 313] "), 1) << third;
  EXPECT_EQ(count(third, "[Epoch 2, batch 1] "), 1) << third;
  EXPECT_EQ(count(third, "[Epoch 2, batch 313] "), 1) << third;
  EXPECT_EQ(count(third, "done after step 670 in "), 1) << third;
  EXPECT_EQ(count(fourth, "resuming after step 670 of 670\n"), 1) << fourth;
  std::vector<int> ends;
  for (const auto& start : metrics(output, "start")) ends.push_back(start.at("steps"));
  EXPECT_EQ(ends, (std::vector<int>{200, 210, 670, 670}));
  int before = 0;
  for (const auto& step : metrics(output, "step")) {
    EXPECT_EQ(step.at("step").get<int>(), ++before);
    EXPECT_GE(step.at("batch").get<int>(), 1);
  }
  EXPECT_EQ(before, 670);
}

TEST(Resume, EndsACosineWithItsLastStepThoughTheBatchesBecameLarger) {
  TemporaryFolder folder;
  const std::vector<std::string> cosine = {"train.epochs=0",       "train.steps=40",
                                           "schedule.kind=cosine", "schedule.learning_rate=0.1",
                                           "run.log_every=1",      "checkpoint.every=20"};
  ASSERT_EQ(flotilla(1, arguments(folder.path("run"), cosine)).exit_code, 0);
  std::vector<std::string> larger = cosine;
  larger.push_back("run.resume=" + folder.path("run") + "/checkpoints/step-00000020.h5");
  larger.emplace_back("train.global_batch_size=128");

  const Result resumed = flotilla(2, arguments(folder.path("run"), larger));

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  const auto last = last_metrics(folder.path("run"), "step");
  EXPECT_EQ(last.at("step"), 40);
  EXPECT_LT(last.at("learning_rate").get<double>(), 0.001);
}

TEST(Resume, GoesOnAfterASignal) {
  TemporaryFolder folder;
  ASSERT_EQ(flotilla(2, arguments(folder.path("whole"), {"train.epochs=30"})).exit_code, 0);
  Program program(flotilla_command(2, arguments(folder.path("run"), {"train.epochs=30"})));
  wait_for_steps(folder.path("run"));

  kill(program.pid(), SIGUSR1);
  const Result stopped = program.wait();
  const Result resumed = flotilla(2, arguments(folder.path("run"), {"train.epochs=30"}));

  EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(first_metrics(folder.path("run"), "end").at("reason"), "stopped");
  EXPECT_EQ(final_model(folder.path("run")).values, final_model(folder.path("whole")).values);
}

/// One process without mpirun, as in a terminal: a shell may start tests with SIGINT ignored.
std::vector<std::string> in_a_terminal(const std::vector<std::string>& more) {
  std::vector<std::string> command = {"env", "--default-signal=INT", FLOTILLA_EXECUTABLE};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

TEST(Resume, GoesOnAfterAnInterrupt) {
  TemporaryFolder folder;
  Program program(in_a_terminal(arguments(folder.path("run"), {"train.epochs=100000"})));
  wait_for_steps(folder.path("run"));

  kill(program.pid(), SIGINT);
  kill(program.pid(), SIGINT);  // as timeout(1) does: to the process and to its group
  const Result stopped = program.wait();

  EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
  EXPECT_NE(stopped.output.find("signal 2 received: stopping after this step"), std::string::npos)
      << stopped.output;
  EXPECT_TRUE(find_newest_good(folder.path("run"), [](const std::string&) {}).has_value());
}

TEST(Resume, IsNotWaitedForAfterASecondInterrupt) {
  TemporaryFolder folder;
  Program program(in_a_terminal(
      arguments(folder.path("run"), {"run.emulate_straggler.rank=0", "run.emulate_straggler.pause_s=100"})));
  for (int i = 0; i < 3000 && !contains(program.output(), "starting at step"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));

  kill(program.pid(), SIGINT);
  ASSERT_FALSE(program.wait_for(0.5))
      << "it did not wait for its step";  // otherwise there is no pid to signal
  kill(program.pid(), SIGINT);
  const Result ended = program.wait();

  EXPECT_EQ(ended.exit_code, 128 + SIGINT);
  EXPECT_NE(ended.errors.find("signal 2 received again: leaving at once, without saving"), std::string::npos)
      << ended.errors;
  EXPECT_FALSE(find_newest_good(folder.path("run"), [](const std::string&) {}).has_value());
}

TEST(Resume, IsAskedForThoughMetricsWereLost) {
  TemporaryFolder folder;
  Program program(flotilla_command(2, arguments(folder.path("run"), {"train.epochs=100000"})));
  wait_for_steps(folder.path("run"));
  fs::remove(folder.path("run") + "/metrics.jsonl");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));

  kill(program.pid(), SIGUSR1);
  const Result stopped = program.wait();

  EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
  EXPECT_NE(stopped.errors.find("flotilla: warning: cannot write " + folder.path("run") + "/metrics.jsonl"),
            std::string::npos)
      << stopped.errors;
  EXPECT_TRUE(find_newest_good(folder.path("run"), [](const std::string&) {}).has_value());
}

TEST(Resume, GoesOnAfterATimeLimit) {
  TemporaryFolder folder;

  const Result stopped =
      flotilla(2, arguments(folder.path("run"), {"train.epochs=1000", "run.time_limit_s=0.5"}));

  EXPECT_EQ(stopped.exit_code, 75) << stopped.errors;
  EXPECT_EQ(last_metrics(folder.path("run"), "end").at("reason"), "time limit");
}

/// One process without mpirun, in the environment of a job of Slurm's.
Result flotilla_in_slurm(const std::vector<std::string>& environment, std::vector<std::string> command) {
  command.insert(command.begin(), FLOTILLA_EXECUTABLE);
  return run(in_environment(environment, command));
}

TEST(Resume, IsNotAskedForWhereSlurmsLimitLeavesTimeForOneStepOnly) {
  TemporaryFolder folder;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto end_s = std::chrono::duration_cast<std::chrono::seconds>(now).count() + 10'000;

  const Result result = flotilla_in_slurm({"SLURM_JOB_ID=7", "SLURM_JOB_END_TIME=" + std::to_string(end_s)},
                                          arguments(folder.path("run"), {"run.stop_margin_s=20000"}));

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.output.find("time limit   Slurm's, of job 7, in 2 h 46 min"), std::string::npos)
      << result.output;
  EXPECT_NE(result.errors.find("sbatch --time"), std::string::npos) << result.errors;
  EXPECT_EQ(last_metrics(folder.path("run"), "end").at("reason"), "time limit");
  EXPECT_EQ(final_model(folder.path("run")).state.step, 1);
}

TEST(Resume, FollowsNoLimitOfSlurmsThatHasPassed) {
  TemporaryFolder folder;

  const Result result = flotilla_in_slurm({"SLURM_JOB_ID=7", "SLURM_JOB_END_TIME=1000"},
                                          arguments(folder.path("run"), {"train.steps=20"}));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.errors.find("flotilla: warning: the time limit of Slurm's job 7 is not known"),
            std::string::npos)
      << result.errors;
}

TEST(Resume, IsNotWhatRanksDoThatSrunLeftAlone) {
  TemporaryFolder folder;

  const Result first = flotilla_in_slurm({"SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=0"},
                                         arguments(folder.path("run"), {"train.steps=20"}));
  const Result second = flotilla_in_slurm({"SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1"},
                                          arguments(folder.path("run"), {"train.steps=20"}));

  EXPECT_EQ(first.exit_code, 2);
  EXPECT_NE(first.errors.find("srun --mpi=pmix"), std::string::npos) << first.errors;
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_EQ(second.errors, "");
  EXPECT_FALSE(fs::exists(folder.path("run")));
}

TEST(Resume, UsesTheNewestGoodCheckpointAfterAKill) {
  TemporaryFolder folder;
  const std::vector<std::string> run =
      arguments(folder.path("run"), {"train.epochs=40", "checkpoint.every=3"});
  for (int round = 0; round < 3; ++round) {
    const std::string newest = find_newest_good(folder.path("run"), [](const std::string&) {}).value_or("");
    Program program(flotilla_command(2, run));
    const std::vector<pid_t> ranks = rank_processes(program.pid(), 2);
    wait_for_checkpoint_after(folder.path("run"), newest);
    kill(ranks[static_cast<std::size_t>(round % 2)], SIGKILL);
    const Result killed = program.wait();
    EXPECT_NE(killed.exit_code, 0);
  }
  ASSERT_TRUE(find_newest_good(folder.path("run"), [](const std::string&) {}).has_value());

  const Result resumed = flotilla(2, arguments(folder.path("run"), {"train.epochs=41"}));

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("resumed"), std::string::npos);
  for (const auto& entry : fs::directory_iterator(folder.path("run") + "/checkpoints"))
    EXPECT_EQ(entry.path().extension(), ".h5") << entry.path();
  EXPECT_EQ(last_metrics(folder.path("run"), "step").at("step"), 41 * 157);
}

TEST(Resume, SkipsADamagedCheckpointAndSaysSo) {
  TemporaryFolder folder;
  ASSERT_EQ(flotilla(1, arguments(folder.path("run"), {"train.steps=20", "checkpoint.every=10"})).exit_code,
            0);
  const std::string newest = folder.path("run") + "/checkpoints/step-00000020.h5";
  std::string bytes = read_file(newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(newest, bytes);

  const Result resumed = flotilla(1, arguments(folder.path("run"), {"train.steps=30"}));

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("step-00000020.h5"), std::string::npos) << resumed.errors;
  EXPECT_NE(resumed.output.find("step 10"), std::string::npos) << resumed.output;
}

TEST(Resume, DoesNotStartAnewWhereAllCheckpointsAreDamaged) {
  TemporaryFolder folder;
  ASSERT_EQ(flotilla(1, arguments(folder.path("run"), {"train.steps=10"})).exit_code, 0);
  const std::string only = folder.path("run") + "/checkpoints/step-00000010.h5";
  fs::resize_file(only, 1000);

  const Result resumed = flotilla(2, arguments(folder.path("run"), {"train.steps=30"}));

  EXPECT_EQ(resumed.exit_code, 2);
  EXPECT_EQ(count(resumed.errors, "flotilla: "), 1) << resumed.errors;
  for (const char* part : {"none of the checkpoints in", "step-00000010.h5", "damaged", "move them away"})
    EXPECT_NE(resumed.errors.find(part), std::string::npos) << part << "\n" << resumed.errors;
  EXPECT_EQ(metrics(folder.path("run"), "end").size(), 1U) << "the run's files were touched";
}

TEST(Resume, DoesNotStartAnewWhereTheCheckpointsCannotBeRead) {
  TemporaryFolder folder;
  const std::string output = folder.path("run");
  ASSERT_EQ(flotilla(1, arguments(output, {"train.steps=10"})).exit_code, 0);
  fs::rename(output + "/checkpoints", folder.path("elsewhere"));
  fs::create_symlink("checkpoints", output + "/checkpoints");  // to itself

  const Result resumed = flotilla(2, arguments(output, {"train.steps=30"}));

  EXPECT_EQ(resumed.exit_code, 2);
  EXPECT_EQ(count(resumed.errors, "flotilla: "), 1) << resumed.errors;
  EXPECT_NE(resumed.errors.find(output + "/checkpoints holds checkpoints: Too many levels of symbolic links"),
            std::string::npos)
      << resumed.errors;
  EXPECT_EQ(metrics(output, "end").size(), 1U) << "the run's files were touched";
}

TEST(Resume, FromAFileThatIsNotThereNamesTheKey) {
  TemporaryFolder folder;

  const Result result = flotilla(2, arguments(folder.path("run"), {"run.resume=/nowhere/step-00000010.h5"}));

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find(": run.resume = \"/nowhere/step-00000010.h5\": there is no such file"),
            std::string::npos)
      << result.errors;
  EXPECT_FALSE(fs::exists(folder.path("run")));
}

TEST(Resume, WarnsOfLaterCheckpointsWhereARunIsSetBack) {
  TemporaryFolder folder;
  ASSERT_EQ(flotilla(1, arguments(folder.path("run"), {"train.steps=20", "checkpoint.every=10"})).exit_code,
            0);
  const std::string folder_of_checkpoints = folder.path("run") + "/checkpoints/";

  const Result back =
      flotilla(1, arguments(folder.path("run"),
                            {"train.steps=15", "run.resume=" + folder_of_checkpoints + "step-00000010.h5"}));

  EXPECT_EQ(back.exit_code, 0) << back.errors;
  EXPECT_NE(back.errors.find("step-00000020.h5' is later than step 10"), std::string::npos) << back.errors;
}

TEST(Resume, RefusesAnotherModelAndNamesTheKey) {
  TemporaryFolder folder;
  ASSERT_EQ(flotilla(1, arguments(folder.path("run"), {"train.steps=5"})).exit_code, 0);

  const Result other = flotilla(2, arguments(folder.path("run"), {"train.steps=9", "model.widths=[64]"}));
  const Result never = flotilla(2, arguments(folder.path("run"), {"train.steps=9", "run.resume=never"}));

  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.errors.find("model.widths"), std::string::npos) << other.errors;
  EXPECT_EQ(count(other.errors, "flotilla: "), 1) << other.errors;
  EXPECT_EQ(never.exit_code, 2);
  EXPECT_NE(never.errors.find("run.resume"), std::string::npos) << never.errors;
}

}  // namespace
}  // namespace flotilla::test
