// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iterator>

#include "kernels/error.hpp"
#include "src/observe/failure_report.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/watched_calls.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {

namespace {

using Names = std::vector<std::string>;

SaveReport save(CheckpointWriter& writer, std::int64_t step) {
  writer.start(save_of(sample_snapshot(step)));
  writer.finish();
  return writer.reports().back();
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

}  // namespace

TEST(DiskCalls, SyncTheFileThenRenameItThenSyncTheFolder) {
  const test::TemporaryFolder folder;
  WatchedCalls calls(folder.path());
  const std::string temporary = temporary_name("a.h5");

  write_checkpoint_file(folder.path("a.h5"), sample_snapshot(1));

  EXPECT_EQ(calls.log,
            (Names{"write " + temporary, "sync " + temporary, "rename " + temporary + " a.h5", "sync ."}));
}

TEST(DiskCalls, FailureJsonIsThereBeforeTheDiskIsWaitedFor) {
  const test::TemporaryFolder folder;
  WatchedCalls calls(folder.path());
  std::vector<bool> there;
  calls.fault = [&](const std::string& call, const std::string&) {
    if (call == "sync") there.push_back(read_failure(folder.path(), 0.0).has_value());
    return 0;
  };

  report_failure({.rank = 1, .ranks = 2, .what = "nothing has moved"}, folder.path());

  EXPECT_EQ(there, std::vector<bool>{true});
}

/// One good checkpoint, and then a disk that fails.
class FailingDisk : public testing::Test {
 protected:
  FailingDisk() { save(writer_, 1); }
  /// The error of a save. Whatever went wrong, only the first checkpoint may be there, and nothing be left
  /// open.
  std::string error_of_save() {
    const std::ptrdiff_t open_before = open_files();
    const std::string error = save(writer_, 2).error;
    EXPECT_EQ(folder_.names(), Names{"step-00000001.h5"});
    EXPECT_EQ(open_files(), open_before);
    return error;
  }

  test::TemporaryFolder folder_;
  CheckpointWriter writer_{folder_.path(), 1};
  WatchedCalls calls_{folder_.path()};
};

TEST_F(FailingDisk, FullAtAnyByteIsReportedAndTheNextSaveSucceeds) {
  const auto whole = static_cast<std::ptrdiff_t>(bytes_of(folder_.path("step-00000001.h5")).size());
  for (std::ptrdiff_t room = 0; room < whole; room += 211) {
    calls_.room = room;

    EXPECT_TRUE(mentions(error_of_save(), {folder_.path("step-00000002.h5"), "No space left on device"}))
        << room;
  }
  calls_.room = -1;

  EXPECT_EQ(save(writer_, 2).error, "");
  EXPECT_TRUE(equal(read_checkpoint(folder_.path("step-00000002.h5")), sample_snapshot(2)));
}

TEST_F(FailingDisk, ThatCannotSyncOrRenameIsReported) {
  calls_.sync_fails = true;
  EXPECT_TRUE(mentions(error_of_save(), {"step-00000002.h5", "Input/output error"}));
  calls_.sync_fails = false;

  calls_.rename_fails = true;
  EXPECT_TRUE(mentions(error_of_save(), {"step-00000002.h5", "Input/output error"}));
}

// The checkpoint is there: a sentence that denies it would end a run at its last one.
TEST_F(FailingDisk, ThatCannotSyncTheFolderOrRemoveOldOnesIsToldOfACheckpointThatWasSaved) {
  struct Case {
    std::string call;
    std::string path;
    std::string words;
  };
  const std::string old = folder_.path("step-00000001.h5");
  std::int64_t step = 1;
  for (const Case& at :
       {Case{"sync", folder_.path(), cat("cannot write '", folder_.path(), "': Input/output error")},
        Case{"remove", old, cat("cannot remove '", old, "': Input/output error")}}) {
    calls_.fault = [&](const std::string& call, const std::string& path) {
      return call == at.call && path == at.path ? EIO : 0;
    };
    ++step;

    const SaveReport report = save(writer_, step);

    EXPECT_EQ(report.error, "");
    EXPECT_TRUE(
        mentions(report.warning, {cat("the checkpoint of step ", step, " was saved, but then"), at.words}));
    EXPECT_TRUE(equal(read_checkpoint(report.path), sample_snapshot(step)));
    EXPECT_TRUE(std::filesystem::exists(old)) << at.call;
  }
  calls_.fault = nullptr;
  EXPECT_EQ(save(writer_, 9).warning, "");
  EXPECT_EQ(folder_.names(), Names{"step-00000009.h5"});
}

TEST_F(FailingDisk, ThatStoresWrongBytesIsFoundBeforeTheRename) {
  const auto whole = static_cast<std::ptrdiff_t>(bytes_of(folder_.path("step-00000001.h5")).size());
  for (const std::ptrdiff_t byte : {5, 700, 1500}) {
    calls_.spoilt_byte = whole - byte;

    EXPECT_TRUE(mentions(error_of_save(), {"step-00000002.h5"})) << byte;
  }
  calls_.spoilt_byte = 3;  // The values are written first
  EXPECT_TRUE(mentions(error_of_save(), {"step-00000002.h5", "/parameters/layers.0.weight"}));
}

}  // namespace flotilla
