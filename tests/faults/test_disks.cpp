// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/faults/private_mounts.hpp"
#include "tests/faults/small_run.hpp"
#include "tests/runs/program.hpp"

// Disks that are full, that cannot be written, and folders that are removed, under a run.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

/// Mounts are this process' own from the first of these tests on.
class Disk : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string reason = own_mounts();
    if (!reason.empty()) {
      const char* const required = std::getenv("FLOTILLA_CLUSTER_TESTS");  // as tests/hosts/needs.sh
      ASSERT_FALSE(required != nullptr && required == std::string("required")) << "no mounts: " << reason;
      GTEST_SKIP() << "no mounts of its own: " << reason;
    }
    fs::create_directory(disk_);
    mount_disk(disk_, std::int64_t{48} << 20);
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) unmount(disk_);
  }

  Texts arguments(const Texts& more) const {
    Texts all = small_run(output_, more);
    all.emplace_back("--verbose");  // tells of each checkpoint
    return all;
  }
  /// Waits until the run has printed `words`; false: it did not.
  static bool wait_until_said(const Program& program, const std::string& words) {
    return wait_until([&] { return contains(program.output() + program.errors(), words); });
  }
  std::string newest() const {
    return find_newest_good(output_, [](const std::string& text) { ADD_FAILURE() << text; }).value_or("");
  }
  std::int64_t step_of_newest() const { return read_checkpoint(newest()).state.step; }
  /// Expects that the run resumes from what exists and completes.
  void expect_to_go_on() {
    const std::int64_t saved = step_of_newest();
    const Result resumed = flotilla(2, arguments({"train.steps=" + std::to_string(saved + 30)}));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_NE(resumed.output.find(", step " + std::to_string(saved) + ","), std::string::npos)
        << resumed.output;
    for (const auto& entry : fs::recursive_directory_iterator(output_))
      EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
  }

  TemporaryFolder folder_;
  std::string disk_ = folder_.path("disk");
  std::string output_ = folder_.path("disk") + "/run";
  bool mounted_ = false;
};

TEST_F(Disk, ThatIsFullCostsCheckpointsUntilThereIsRoomAgain) {
  Program program(flotilla_command(2, arguments({"train.epochs=100000"})));
  ASSERT_TRUE(wait_until_said(program, "checkpoint " + output_));
  fill_disk(disk_ + "/fill");
  ASSERT_TRUE(wait_until_said(program, "was not saved"));
  const std::string good = newest();
  fs::remove(disk_ + "/fill");
  ASSERT_TRUE(wait_until([&] { return newest() > good; }));
  kill(rank_processes(program.pid(), 2).back(), SIGUSR1);

  const Result result = program.wait();

  EXPECT_EQ(result.exit_code, 75) << result.errors;
  EXPECT_NE(result.errors.find("flotilla: warning: the checkpoint of step "), std::string::npos)
      << result.errors;
  EXPECT_NE(result.errors.find("No space left on device"), std::string::npos) << result.errors;
  EXPECT_EQ(step_of_newest(), last_metrics(output_, "end").at("step"));
  expect_to_go_on();
}

TEST_F(Disk, ThatStaysFullEndsTheRunWithTheLastGoodCheckpoint) {
  Program program(flotilla_command(2, arguments({"train.epochs=100000"})));
  ASSERT_TRUE(wait_until_said(program, "checkpoint " + output_));
  fill_disk(disk_ + "/fill");
  ASSERT_TRUE(wait_until_said(program, "was not saved"));
  ASSERT_TRUE(wait_until([&] {
    fill_disk(disk_ + "/fill");  // the room of saves that were under way
    return contains(program.errors(), "metrics.jsonl: No space left on device; training goes on");
  }));
  kill(rank_processes(program.pid(), 2).back(), SIGUSR1);

  const Result result = program.wait();

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("the last checkpoint could not be written"), std::string::npos)
      << result.errors;
  EXPECT_NE(result.errors.find("the last good checkpoint is " + newest()), std::string::npos)
      << result.errors;
  fs::remove(disk_ + "/fill");
  expect_to_go_on();
}

TEST_F(Disk, ThatIsFullBeforeTheStartIsToldInOneSentence) {
  fill_disk(disk_ + "/fill");

  const Result result = flotilla(2, arguments({"train.steps=20"}));

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
  EXPECT_NE(result.errors.find("No space left on device"), std::string::npos) << result.errors;
}

TEST_F(Disk, WithoutRoomForACheckpointIsToldBeforeTraining) {
  fill_disk(disk_ + "/fill");
  fs::resize_file(disk_ + "/fill", fs::file_size(disk_ + "/fill") - (std::uintmax_t{64} << 10));

  const Result training = flotilla(2, arguments({"train.steps=20"}));
  const Result check = flotilla(2, arguments({"train.steps=20", "--check"}));

  for (const Result& result : {training, check})
    expect_told(result, "No space left on device for a checkpoint in run.output " + output_ + ": one takes ");
  EXPECT_FALSE(fs::exists(output_));
}

// The digits are 7.84 MB when inflated, once for both ranks.
TEST_F(Disk, ThatIsTooSmallForInflatedDataIsToldBeforeInflating) {
  fill_disk(disk_ + "/fill");
  fs::resize_file(disk_ + "/fill", fs::file_size(disk_ + "/fill") - (std::uintmax_t{5} << 20));
  const Texts command = flotilla_command(2, small_run(folder_.path("run"), {"train.steps=20"}));

  const Result result = flotilla::test::run(with_variables(command, {"TMPDIR=" + disk_}));

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
  EXPECT_NE(result.errors.find("the inflated copy of "), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find(": needs 7840000 bytes, "), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("or decompress the file once"), std::string::npos) << result.errors;
}

TEST_F(Disk, ThatCannotBeWrittenIsToldBeforeTheStart) {
  fs::create_directory(output_);
  make_read_only(disk_);

  const Result result = flotilla(2, arguments({"train.steps=20"}));

  unmount(disk_);
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
  EXPECT_NE(result.errors.find(output_ + " is not writable: Read-only file system; set run.output"),
            std::string::npos)
      << result.errors;
}

TEST_F(Disk, ThatTurnsReadOnlyEndsTheRunWithTheLastGoodCheckpoint) {
  Program program(flotilla_command(2, arguments({"train.epochs=100000"})));
  ASSERT_TRUE(wait_until_said(program, "checkpoint " + output_));
  // Busy while a checkpoint is being written.
  ASSERT_TRUE(wait_until([&] {
    try {
      make_read_only(output_ + "/checkpoints");
    } catch (const std::system_error&) {
      unmount(output_ + "/checkpoints");
      return false;
    }
    return true;
  }));
  ASSERT_TRUE(wait_until_said(program, "was not saved"));
  kill(rank_processes(program.pid(), 2).back(), SIGUSR1);

  const Result result = program.wait();

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("Read-only file system"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("the last good checkpoint is " + newest()), std::string::npos)
      << result.errors;
  unmount(output_ + "/checkpoints");
  expect_to_go_on();
}

TEST_F(Disk, FromWhichTheFolderIsRemovedGetsTheNextCheckpointsAgain) {
  Program program(flotilla_command(2, arguments({"train.epochs=100000"})));
  ASSERT_TRUE(wait_until_said(program, "checkpoint " + output_));
  fs::rename(output_, disk_ + "/removed");
  ASSERT_TRUE(wait_until([&] { return !newest().empty(); }));
  kill(rank_processes(program.pid(), 2).back(), SIGUSR1);

  const Result result = program.wait();

  EXPECT_EQ(result.exit_code, 75) << result.errors;
  expect_to_go_on();
}

}  // namespace
}  // namespace flotilla::test
