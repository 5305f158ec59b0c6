// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {

namespace {

/// Large enough that a write takes a while.
Snapshot large_snapshot(std::int64_t step) {
  Snapshot snapshot = sample_snapshot(step);
  for (int i = 0; i < 20; ++i)
    add_tensor(snapshot, cat("strategy/third/", i), {16384}, static_cast<float>(step));
  return snapshot;
}

/// Saves `first`, `first` + 1 … forever, and sends each step that is reported as saved.
[[noreturn]] void save_until_killed(const std::string& folder, std::int64_t first, int pipe) {
  CheckpointWriter writer(folder, 2);
  for (std::int64_t step = first;; ++step) {
    writer.start(save_of(large_snapshot(step)));
    writer.finish();
    if (!writer.reports().front().error.empty()) ::_exit(1);
    if (::write(pipe, &step, sizeof(step)) != sizeof(step)) ::_exit(1);
  }
}

/// Runs save_until_killed in another process, and kills it `after_us` after its first save. @returns the last
/// step that it reported.
std::int64_t run_and_kill(const std::string& folder, std::int64_t first, useconds_t after_us) {
  std::array<int, 2> ends{};
  require(::pipe(ends.data()) == 0, "pipe failed");
  const pid_t child = ::fork();
  if (child == 0) save_until_killed(folder, first, ends[1]);
  ::close(ends[1]);
  std::int64_t reported = -1;
  require(::read(ends[0], &reported, sizeof(reported)) == sizeof(reported), "the child saved nothing");
  ::usleep(after_us);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  require(WIFSIGNALED(status), "the child ended by itself");
  while (::read(ends[0], &reported, sizeof(reported)) == sizeof(reported)) {
  }
  ::close(ends[0]);
  return reported;
}

}  // namespace

TEST(CheckpointKilled, AtAnyMomentLeavesTheLastOneSavedAndNoDamagedOne) {
  const test::TemporaryFolder folder;
  std::mt19937 random(11);
  std::int64_t next = 0;
  for (int round = 0; round < 20; ++round) {
    const std::int64_t reported =
        run_and_kill(folder.path(), next, static_cast<useconds_t>(random() % 40000));
    std::string damage;

    const auto newest = find_newest_good(folder.path(), [&](const std::string& text) { damage += text; });

    EXPECT_EQ(damage, "");
    ASSERT_TRUE(newest.has_value());
    const Snapshot snapshot = read_checkpoint(*newest);
    EXPECT_GE(snapshot.state.step, reported);
    EXPECT_TRUE(equal(snapshot, large_snapshot(snapshot.state.step)));
    next = snapshot.state.step + 1;
  }
  const CheckpointWriter writer(folder.path(), 2);
  for (const std::string& name : folder.names()) EXPECT_TRUE(name.ends_with(".h5")) << name;
}

}  // namespace flotilla
