// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <regex>

#include "kernels/error.hpp"
#include "tests/runs/program.hpp"

// The line on the terminal that is renewed, and a run followed from outside.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* erase = "\r\033[K";

Texts training(const std::string& output, const Texts& more) {
  Texts arguments = {"train", source_path("inputs/mnist_mlp.toml"), "run.output=" + output,
                     "device.threads=1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// `command` on a terminal of 160 columns. @returns all that was written to it
Result on_terminal(const Texts& command) {
  std::string line = "stty cols 160 rows 40;";
  for (const std::string& word : command) line += " '" + word + "'";
  return run({"script", "-qefc", line, "/dev/null"});
}

bool has_script() {
  return run({"sh", "-c", "command -v script"}).exit_code == 0;
}

/// What a terminal's last line held, one after another.
Texts bars_of(const std::string& output) {
  Texts bars;
  for (std::size_t at = output.find(erase); at != std::string::npos; at = output.find(erase, at)) {
    at += std::string(erase).size();
    const std::string bar = output.substr(at, output.find_first_of("\r\n", at) - at);
    if (!bar.empty()) bars.push_back(bar);
  }
  return bars;
}

TEST(Live, ALineOfTheTerminalShowsWhereTheRunStands) {
  if (!has_script()) GTEST_SKIP() << "no command `script`, which makes a terminal (util-linux)";
  const TemporaryFolder folder;

  // The pauses make the run last for some renewals of the line on the fastest machine.
  const Result result = on_terminal(with_variables(
      flotilla_command(2, training(folder.path("run"),
                                   {"train.epochs=30", "run.log_every=1000", "run.emulate_straggler.rank=0",
                                    "run.emulate_straggler.pause_s=0.001"})),
      {"NO_COLOR=1"}));

  ASSERT_EQ(result.exit_code, exit_done) << result.output;
  const std::regex live(
      R"( *\d+ % \[#*\.*\] epoch \d+ of 30, step \d+/2370, loss \d\.\d{5}, \d+ samples/s,( epoch [0-9a-z. ]+ left,)? run [0-9a-z. ]+ left, waiting \d+ %)");
  int live_lines = 0;
  for (const std::string& bar : bars_of(result.output)) {
    if (!contains(bar, " % [")) continue;  // A line that came in place of the bar
    EXPECT_LT(bar.size(), 160U);
    EXPECT_TRUE(std::regex_match(bar, live) || contains(bar, "] evaluating, ")) << bar;
    if (std::regex_match(bar, live)) ++live_lines;
  }
  EXPECT_GE(live_lines, 2) << result.output;
  EXPECT_NE(result.output.find(std::string(erase) + "checkpoint   "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("\ndone after step 2370"), std::string::npos) << result.output;
}

TEST(Live, ElsewhereThereAreOnlyLines) {
  const TemporaryFolder folder;

  const Result result = flotilla(2, training(folder.path("run"), {"train.epochs=2"}));

  ASSERT_EQ(result.exit_code, exit_done) << result.errors;
  EXPECT_EQ(result.output.find('\r'), std::string::npos);
  EXPECT_EQ(result.output.find('\033'), std::string::npos);
}

TEST(Watch, FollowsARunFromBeforeItsStartToItsEnd) {
  const TemporaryFolder folder;
  Program watch({FLOTILLA_EXECUTABLE, "watch", folder.path("run")});

  const Result trained = flotilla(2, training(folder.path("run"), {"train.epochs=2", "run.log_every=50"}));
  const Result watched = watch.wait();

  ASSERT_EQ(trained.exit_code, exit_done) << trained.errors;
  EXPECT_EQ(watched.exit_code, exit_done) << watched.errors;
  EXPECT_TRUE(watched.output.starts_with("waiting for " + folder.path("run") + ", which is not there yet"))
      << watched.output;
  EXPECT_NE(watched.output.find("\ndone after step 158"), std::string::npos) << watched.output;
}

TEST(Watch, EndsAsAStoppedRunDoes) {
  const TemporaryFolder folder;
  Program train(flotilla_command(2, training(folder.path("run"), {"train.epochs=100000"})));
  while (!contains(train.output(), "\nepoch 2 of ") && runs(train.pid())) usleep(20'000);
  Program watch({FLOTILLA_EXECUTABLE, "watch", folder.path("run")});
  while (!contains(watch.output(), "epoch ") && runs(watch.pid())) usleep(20'000);
  const Result once = run({FLOTILLA_EXECUTABLE, "watch", "--once", folder.path("run")});

  kill(train.pid(), SIGUSR1);

  EXPECT_EQ(train.wait().exit_code, exit_stopped);
  const Result watched = watch.wait();
  EXPECT_EQ(watched.exit_code, exit_stopped);
  EXPECT_NE(watched.output.find("\nstopped after step "), std::string::npos) << watched.output;
  EXPECT_EQ(once.exit_code, exit_done);
  EXPECT_TRUE(once.output.starts_with("starting at step 0 of 7900000\n")) << once.output;
  EXPECT_NE(once.output.find(" % ["), std::string::npos) << once.output;
  EXPECT_EQ(run({FLOTILLA_EXECUTABLE, "watch", "--once", folder.path("run")}).exit_code, exit_stopped);
}

}  // namespace
}  // namespace flotilla::test
