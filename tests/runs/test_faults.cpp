// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <thread>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/runs/program.hpp"

// What happens when a rank dies, hangs or cannot write.

namespace flotilla::test {
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

/// The ranks call _exit(9) at this signal (leave_at_signal).
constexpr int leave_signal = SIGUSR2;

/// The signal that a rank gets, and the workers' all-reduce and number.
struct Loss {
  int signal;
  const char* all_reduce;
  int ranks;
};

/// A training whose rank 1 is lost while the others go on to the next all-reduce.
class LostRank : public testing::TestWithParam<Loss> {
 protected:
  Result lose() {
    const Loss& loss = GetParam();
    const std::string output = folder_.path("run");
    std::vector<std::string> command = flotilla_command(
        loss.ranks, arguments(output, {"train.epochs=100000", "validation.every=0", "train.batch_size=16",
                                       loss.signal == SIGSTOP ? "run.watchdog_s=4" : "run.watchdog_s=60",
                                       std::string("strategy.all_reduce=") + loss.all_reduce,
                                       "strategy.ranks_per_group=" + std::to_string(ranks_per_group(loss))}));
    // Loaded second, because a sanitizer must be loaded first.
    if (loss.signal == leave_signal)
      command =
          with_variables(command, {"LD_PRELOAD=" LEAVE_AT_SIGNAL, "ASAN_OPTIONS=verify_asan_link_order=0"});
    // A launcher that notices a death asks the others to end and kills them a little later: more than its
    // usual second, because the machine may be busy, and before their watchdogs speak.
    if (loss.signal != SIGSTOP) command = in_environment({"OMPI_MCA_odls_base_sigkill_timeout=3"}, command);
    Program program(command);
    ranks_ = rank_processes(program.pid(), loss.ranks);
    while (metrics(output, "step").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(ranks_[1], loss.signal);
    return program.wait();
  }

  bool some_run() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](pid_t rank) { return runs(rank); });
  }

  TemporaryFolder folder_;
  std::vector<pid_t> ranks_;

 private:
  static int ranks_per_group(const Loss& loss) {
    return loss.all_reduce == std::string("hierarchical") ? loss.ranks / 2 : 0;
  }
};

INSTANTIATE_TEST_SUITE_P(Signals, LostRank,
                         testing::Values(Loss{SIGSTOP, "shared-memory", 4}, Loss{SIGSTOP, "mpi", 2},
                                         Loss{SIGSTOP, "hierarchical", 4}, Loss{SIGKILL, "shared-memory", 2},
                                         Loss{SIGKILL, "mpi", 4}, Loss{leave_signal, "shared-memory", 4},
                                         Loss{leave_signal, "mpi", 2}));

TEST_P(LostRank, IsNamedWithTheCollectiveAndEndsEveryProcess) {
  const Result result = lose();

  if (GetParam().signal == SIGKILL)
    expect_killed(result);
  else
    EXPECT_EQ(result.exit_code, GetParam().signal == SIGSTOP ? 3 : 9) << result.errors;
  if (GetParam().signal != SIGSTOP && launcher_killed_at_once(result)) {
    while (some_run()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  // Any of the ranks that live may notice first. Where several notice at one time the lowest tells.
  std::smatch told_by;
  ASSERT_TRUE(std::regex_search(result.errors, told_by, std::regex("flotilla: rank [023] on [^\n]*")))
      << result.errors;
  const std::string said = told_by.str();
  // Most likely in a step; but reports and validations meet as well.
  const std::vector<std::string> collectives = {
      ": all-reduce of bucket 0, step ", ": comparing the workers' models, step ", ": validating, step ",
      ": saving, step ", ": reporting, step "};
  EXPECT_TRUE(std::ranges::any_of(collectives, [&](const std::string& collective) {
    return contains(said, collective);
  })) << said;
  // When a rank has gone the launcher asks the others to end: the message names the rank first.
  const std::size_t lost = said.find(": rank 1 on ");
  if (GetParam().signal == SIGSTOP) {
    EXPECT_NE(said.find("; rank 1 on "), std::string::npos) << said;
  } else {
    EXPECT_LT(lost, said.find("; asked to end at: ")) << said;
  }
  EXPECT_NE(said.find(" does not answer"), std::string::npos) << said;
  const std::string file = read_file(folder_.path("run") + "/failure.json");
  const auto failure = nlohmann::json::parse(file, nullptr, false);
  ASSERT_TRUE(failure.is_object()) << file << '\n' << result.errors;
  EXPECT_EQ(failure.at("exit_code"), 3);
  // Ranks that notice at one time all tell; one of them is in the file.
  const std::string teller = "flotilla: rank " + std::to_string(failure.at("rank").get<int>()) + " on ";
  const std::size_t told = result.errors.find(teller);
  ASSERT_NE(told, std::string::npos) << result.errors;
  EXPECT_LT(result.errors.find(failure.at("what").get<std::string>(), told), result.errors.find('\n', told))
      << result.errors;
  while (some_run()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST(Fault, ASecondRunIsKeptOutOfTheFolderUntilTheFirstIsDead) {
  TemporaryFolder folder;
  const std::string output = folder.path("run");
  Program first(flotilla_command(2, arguments(output, {"train.epochs=100000", "checkpoint.every=10"})));
  const std::vector<pid_t> ranks = rank_processes(first.pid(), 2);
  for (int i = 0; i < 3000 && metrics(output, "step").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));

  const Result second = flotilla(2, arguments(output, {"train.epochs=100000"}));
  kill(ranks[0], SIGKILL);
  first.wait();
  const Result third =
      flotilla(2, arguments(output, {"train.epochs=100000", "run.time_limit_s=0.1", "checkpoint.every=10"}));

  EXPECT_EQ(second.exit_code, 2) << second.errors;
  EXPECT_EQ(count(second.errors, "flotilla: "), 1) << second.errors;
  EXPECT_NE(second.errors.find(output + " is in use by another run (process " + std::to_string(ranks[0])),
            std::string::npos)
      << second.errors;
  EXPECT_EQ(third.exit_code, 75) << third.errors;
}

TEST(Fault, AFullDiskWhileSavingKeepsTheLastGoodCheckpoint) {
  TemporaryFolder folder;
  // A limit on the size of files acts like a full disk. One process without mpirun, whose own files would
  // meet the limit too.
  const std::vector<std::string> train = {FLOTILLA_EXECUTABLE,
                                          "train",
                                          source_path("inputs/mlp_random.toml"),
                                          "run.output=" + folder.path("run"),
                                          "model.widths=[1000]",
                                          "checkpoint.every=10"};
  const auto with_steps = [&](const char* steps, const std::vector<std::string>& before) {
    std::vector<std::string> command = before;
    command.insert(command.end(), train.begin(), train.end());
    command.push_back(std::string("train.steps=") + steps);
    return command;
  };
  ASSERT_EQ(run(with_steps("10", {})).exit_code, 0);

  const Result full = run(with_steps(
      "40",
      {"bash", "-c",
       "ulimit -f 100; export PMIX_MCA_gds=hash OMPI_MCA_btl=self UCX_TLS=self,tcp; exec \"$0\" \"$@\""}));

  EXPECT_EQ(full.exit_code, 2) << full.errors;
  EXPECT_NE(full.errors.find("the checkpoint of step 20 was not saved"), std::string::npos) << full.errors;
  EXPECT_NE(full.errors.find("the last good checkpoint is " + folder.path("run")), std::string::npos)
      << full.errors;
  EXPECT_NE(full.errors.find("last checkpoint could not be written"), std::string::npos) << full.errors;
  EXPECT_EQ(last_metrics(folder.path("run"), "step").at("step"), 40) << "training went on";
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
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
  EXPECT_FALSE(find_newest_good(folder.path("run"), [](const std::string&) {}).has_value());
}

}  // namespace
}  // namespace flotilla::test
