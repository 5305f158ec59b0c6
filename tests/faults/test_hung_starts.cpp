// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <system_error>

#include "tests/faults/small_run.hpp"
#include "tests/runs/program.hpp"

// What hangs before training begins, and what only takes long.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

constexpr const char* watchdog = "run.watchdog_s=2";

/// Whether the process has `file` open.
bool has_open(pid_t process, const std::string& file) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", error)) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone) == file) return true;
  }
  return false;
}

/// Jobs whose rank 1 reads the data slowly: its deck's, and another one's.
class HungStart : public testing::Test {
 protected:
  HungStart() {
    fs::create_directory(folder_.path("slow"));
    for (const char* name : {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"})
      fs::copy_file(source_path(std::string("inputs/data/mnist/") + name), slow(name));
  }

  std::string slow(const std::string& name) const { return folder_.path("slow/" + name); }
  std::string images() const { return fs::canonical(slow("train-images-idx3-ubyte.gz")); }
  Texts slow_data() const {
    return {"data.validation.images=" + images(),
            "data.validation.labels=" + slow("train-labels-idx1-ubyte.gz"), watchdog};
  }
  /// A training, or with `command` something else; rank 1 takes so long for each read.
  static Texts job(int ranks, const Texts& command, int milliseconds) {
    return with_library(flotilla_command(ranks, command), DIE_AT_CALL,
                        {"FLOTILLA_TEST_SLOW_READS=1 " + std::to_string(milliseconds)});
  }
  Texts training(const Texts& more = {}) const {
    Texts keys = slow_data();
    keys.push_back("train.steps=20");
    keys.insert(keys.end(), more.begin(), more.end());
    return small_run(folder_.path("run"), keys);
  }
  /// Stops `rank` once rank 1 has opened its data.
  Result stop(Program& program, int ranks, int rank) const {
    const std::vector<pid_t> processes = rank_processes(program.pid(), ranks);
    EXPECT_TRUE(wait_until([&] { return has_open(processes[1], images()); })) << program.errors();
    kill(processes[static_cast<std::size_t>(rank)], SIGSTOP);
    Result result = program.wait();
    for (const pid_t process : processes) EXPECT_TRUE(wait_until([&] { return !runs(process); }));
    return result;
  }

  TemporaryFolder folder_;
};

/// The line of Flotilla's in which all of `parts` occur; empty: none.
std::string line_with(const std::string& text, const Texts& parts) {
  const std::size_t begin = text.find("flotilla: rank ");
  if (begin == std::string::npos) return "";
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  for (const std::string& part : parts)
    if (!contains(line, part)) return "";
  return line;
}

TEST_F(HungStart, NamesAStoppedRankAndWhatItDid) {
  Program program(job(3, training(), 700));

  const Result result = stop(program, 3, 1);

  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(line_with(result.errors,
                      {"nothing has moved for 2 s (run.watchdog_s): opening data.validation, done here; "
                       "rank 1 on ",
                       " does not answer", "the others wait in the same place"}),
            "")
      << result.errors;
}

TEST_F(HungStart, NamesARankWhoseFileSystemHangs) {
  Program program(job(2, training(), 3'600'000));

  const Result result = program.wait();

  EXPECT_EQ(result.exit_code, 3);
  // Either of them reports it.
  EXPECT_NE(line_with(result.errors, {": nothing has moved for 2 s", ", done here",
                                      " is elsewhere: opening data.validation"}),
            "")
      << result.errors;
}

TEST_F(HungStart, NamesAStoppedServer) {
  Program program(job(3,
                      training({"strategy.kind=parameter-server", "roles.kind=user-defined",
                                "roles.server_ranks=2", "roles.worker_ranks=0,1"}),
                      700));

  const Result result = stop(program, 3, 2);

  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(line_with(result.errors, {"rank 2 on ", " does not answer"}), "") << result.errors;
}

TEST_F(HungStart, IsToldByEvaluateToo) {
  const Result trained = flotilla(1, small_run(folder_.path("run"), {"train.steps=1", "validation.every=0"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  Texts evaluate = {"evaluate", folder_.path("run")};
  for (const std::string& key : slow_data()) evaluate.push_back(key);
  Program program(job(2, evaluate, 700));

  const Result result = stop(program, 2, 1);

  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(line_with(result.errors, {"reading the checkpoint, done here; rank 1 on ", " does not answer"}),
            "")
      << result.errors;
}

// Rank 1 reads for longer than the others may hang, and they wait for it: three reads take longer than two
// periods of the watchdog, however fast the machine is.
TEST_F(HungStart, IsNoneWhileItsFileSystemGoesOn) {
  const auto begin = std::chrono::steady_clock::now();

  const Result result = flotilla::test::run(job(2, training(), 1500));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  // The data are validated on those of training, which slow_data() gives for both.
  EXPECT_EQ(count(result.errors, "flotilla:"), count(result.errors, "hold the same samples"))
      << result.errors;
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(4));
}

}  // namespace
}  // namespace flotilla::test
