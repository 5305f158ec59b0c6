// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {

namespace {

using Names = std::vector<std::string>;

void write_step(const std::string& folder, std::int64_t step) {
  write_checkpoint_file(folder + "/" + CheckpointFolder::file_name(step), sample_snapshot(step));
}

/// What find_newest_good returns, and what it said about others.
struct Found {
  std::string path;
  Names complaints;
};

Found search(const std::string& folder) {
  Found found;
  found.path = find_newest_good(folder, [&](const std::string& text) {
                 found.complaints.push_back(text);
               }).value_or("");
  return found;
}

}  // namespace

TEST(CheckpointFolder, NamesFilesByStepWithEightDigitsOrMore) {
  EXPECT_EQ(CheckpointFolder::file_name(400), "step-00000400.h5");
  EXPECT_EQ(CheckpointFolder::file_name(0), "step-00000000.h5");
  EXPECT_EQ(CheckpointFolder::file_name(1234567890), "step-1234567890.h5");
}

TEST(CheckpointFolder, FindsTheNewestByNumberInARunsFolderAndInItsCheckpoints) {
  const test::TemporaryFolder run;
  const std::string inner = run.path("checkpoints");
  std::filesystem::create_directory(inner);
  for (const std::int64_t step : {5, 123456789, 40}) write_step(inner, step);

  EXPECT_EQ(search(run.path()).path, inner + "/step-123456789.h5");
  EXPECT_EQ(search(inner).path, inner + "/step-123456789.h5");
}

TEST(CheckpointFolder, PassesOverDamagedOnesAndSaysWhy) {
  const test::TemporaryFolder folder;
  for (const std::int64_t step : {1, 2, 3}) write_step(folder.path(), step);
  put_bytes(folder.path("step-00000003.h5"), {});
  const auto whole = bytes_of(folder.path("step-00000002.h5"));
  put_bytes(folder.path("step-00000002.h5"), {whole.begin(), whole.end() - 100});

  const Found found = search(folder.path());

  EXPECT_EQ(std::filesystem::path(found.path).filename(), "step-00000001.h5");
  ASSERT_EQ(found.complaints.size(), 2U);
  EXPECT_TRUE(mentions(found.complaints[0], {"step-00000003.h5", "damaged"}));
  EXPECT_TRUE(mentions(found.complaints[1], {"step-00000002.h5", "truncated"}));
}

TEST(CheckpointFolder, WithoutGoodCheckpointHasNoNewest) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(search(folder.path()).path, "");
  EXPECT_EQ(search(folder.path("absent")).path, "");

  put_bytes(folder.path("step-00000003.h5"), {});
  put_bytes(folder.path("step-00000004.h5.tmp-17"), {});
  put_bytes(folder.path("other.h5"), {});

  const Found found = search(folder.path());
  EXPECT_EQ(found.path, "");
  EXPECT_EQ(found.complaints.size(), 1U);
  EXPECT_TRUE(mentions(user_error([&] { checkpoint_at(folder.path(), [](const std::string&) {}); }),
                       {folder.path(), "no good checkpoint"}));
}

TEST(CheckpointFolder, FromANewerProgramIsNotPassedOver) {
  const test::TemporaryFolder folder;
  for (const std::int64_t step : {1, 2}) write_step(folder.path(), step);
  set_attribute(folder.path("step-00000002.h5"), "schema", CheckpointState::newest_schema + 1);

  EXPECT_TRUE(mentions(user_error([&] { search(folder.path()); }), {"step-00000002.h5", "newer Flotilla"}));
}

TEST(CheckpointFolder, RemovesTheOldestBeyondThoseKept) {
  const test::TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path());

  for (const std::int64_t step : {1, 2, 3, 4}) {
    write_step(folder.path(), step);
    checkpoints.saved(step, 2);
  }

  EXPECT_EQ(folder.names(), (Names{"step-00000003.h5", "step-00000004.h5"}));
}

TEST(CheckpointFolder, KeepsTheBestBesideTheNewestUntilThereIsABetterOne) {
  const test::TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path());
  const auto save = [&](std::int64_t step, std::int64_t best) {
    write_step(folder.path(), step);
    checkpoints.mark_best(best);
    checkpoints.saved(step, 1);
  };

  save(1, 1);
  save(2, 2);
  save(3, 2);
  save(4, 2);

  EXPECT_EQ(folder.names(), (Names{"best.h5", "step-00000002.h5", "step-00000004.h5"}));
  EXPECT_EQ(read_checkpoint(folder.path("best.h5")).state.step, 2);
  EXPECT_EQ(checkpoint_at(folder.path("best.h5"), [](const std::string&) {}),
            std::filesystem::canonical(folder.path("step-00000002.h5")).string());

  save(5, 5);

  EXPECT_EQ(folder.names(), (Names{"best.h5", "step-00000005.h5"}));
}

TEST(CheckpointFolder, KeepsTheBestThatThereIsWhereABetterOneWasNotSaved) {
  const test::TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path());
  write_step(folder.path(), 1);
  checkpoints.mark_best(1);
  write_step(folder.path(), 3);

  checkpoints.mark_best(2);
  checkpoints.saved(3, 1);

  EXPECT_EQ(folder.names(), (Names{"best.h5", "step-00000001.h5", "step-00000003.h5"}));
}

TEST(CheckpointFolder, NeitherCountsNorRemovesDamagedOnes) {
  const test::TemporaryFolder folder;
  for (const std::int64_t step : {1, 2, 3, 4, 5}) write_step(folder.path(), step);
  put_bytes(folder.path("step-00000004.h5"), {});
  put_bytes(folder.path("step-00000002.h5"), {});
  CheckpointFolder checkpoints(folder.path());

  checkpoints.saved(5, 2);

  EXPECT_EQ(folder.names(),
            (Names{"step-00000002.h5", "step-00000003.h5", "step-00000004.h5", "step-00000005.h5"}));
}

TEST(CheckpointFolder, KeepsLaterOnesOfARunThatWasSetBackAndFilesOfOtherNames) {
  const test::TemporaryFolder folder;
  for (const std::int64_t step : {1, 2, 90}) write_step(folder.path(), step);
  put_bytes(folder.path("step-1.h5.bak"), {});
  put_bytes(folder.path("step-one.h5"), {});
  CheckpointFolder checkpoints(folder.path());

  checkpoints.saved(2, 1);

  EXPECT_EQ(folder.names(), (Names{"step-00000002.h5", "step-00000090.h5", "step-1.h5.bak", "step-one.h5"}));
}

TEST(CheckpointFolder, RemovesUnfinishedFilesAndNothingElse) {
  const test::TemporaryFolder folder;
  for (const char* name : {"step-00000001.h5", "step-00000002.h5.tmp-77", "step-00000002.h5.tmp-",
                           "model.h5.tmp-7", "step-2.h5.tmp-7x", "step-.h5.tmp-7"})
    put_bytes(folder.path(name), {});

  CheckpointFolder(folder.path()).remove_unfinished();

  EXPECT_EQ(folder.names(), (Names{"model.h5.tmp-7", "step-.h5.tmp-7", "step-00000001.h5",
                                   "step-00000002.h5.tmp-", "step-2.h5.tmp-7x"}));
}

}  // namespace flotilla
