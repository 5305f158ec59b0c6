// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/commands/inspect.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/saving_pair.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/in_folder.hpp"
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

using CheckpointFolders = test::InFolder;

TEST_F(CheckpointFolders, NamesFilesByStepWithEightDigitsOrMore) {
  EXPECT_EQ(CheckpointFolder::file_name(400), "step-00000400.h5");
  EXPECT_EQ(CheckpointFolder::file_name(0), "step-00000000.h5");
  EXPECT_EQ(CheckpointFolder::file_name(1234567890), "step-1234567890.h5");
}

TEST_F(CheckpointFolders, FindsTheNewestByNumberInARunsFolderAndInItsCheckpoints) {
  const test::TemporaryFolder run;
  const std::string inner = run.path("checkpoints");
  std::filesystem::create_directory(inner);
  for (const std::int64_t step : {5, 123456789, 40}) write_step(inner, step);

  EXPECT_EQ(search(run.path()).path, inner + "/step-123456789.h5");
  EXPECT_EQ(search(inner).path, inner + "/step-123456789.h5");
}

TEST_F(CheckpointFolders, PassesOverDamagedOnesAndSaysWhy) {
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

TEST_F(CheckpointFolders, WithoutGoodCheckpointHasNoNewest) {
  EXPECT_EQ(search(folder.path()).path, "");
  EXPECT_EQ(search(folder.path("absent")).path, "");

  put_bytes(folder.path("step-00000003.h5"), {});
  put_bytes(folder.path("step-00000004.h5.tmp-17"), {});
  put_bytes(folder.path("other.h5"), {});

  const Found found = search(folder.path());
  EXPECT_EQ(found.path, "");
  EXPECT_EQ(found.complaints.size(), 1U);
  EXPECT_TRUE(mentions(error_of([&] { checkpoint_at(folder.path(), [](const std::string&) {}); }),
                       {folder.path(), "no good checkpoint"}));
}

TEST_F(CheckpointFolders, FromANewerProgramIsNotPassedOver) {
  for (const std::int64_t step : {1, 2}) write_step(folder.path(), step);
  set_attribute(folder.path("step-00000002.h5"), "schema", CheckpointState::newest_schema + 1);

  EXPECT_TRUE(mentions(error_of([&] { search(folder.path()); }), {"step-00000002.h5", "newer Flotilla"}));
}

TEST_F(CheckpointFolders, RemovesTheOldestBeyondThoseKept) {
  CheckpointFolder checkpoints(folder.path());

  for (const std::int64_t step : {1, 2, 3, 4}) {
    write_step(folder.path(), step);
    checkpoints.saved(step, 2);
  }

  EXPECT_EQ(folder.names(), (Names{"step-00000003.h5", "step-00000004.h5"}));
}

TEST_F(CheckpointFolders, KeepsTheBestBesideTheNewestUntilThereIsABetterOne) {
  CheckpointFolder checkpoints(folder.path());
  const auto save = [&](std::int64_t step, std::int64_t best) {
    write_step(folder.path(), step);
    checkpoints.mark_best({best});
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

TEST_F(CheckpointFolders, KeepsSeveralOfTheBestAndRemovesLinksThatAreNoLonger) {
  CheckpointFolder checkpoints(folder.path());
  const auto save = [&](std::int64_t step, const std::vector<std::int64_t>& best) {
    write_step(folder.path(), step);
    checkpoints.mark_best(best);
    checkpoints.saved(step, 1);
  };
  save(1, {1});
  save(2, {1, 2});
  save(3, {1, 3});
  save(4, {4, 1});
  save(5, {4, 1});

  EXPECT_EQ(folder.names(),
            (Names{"best-2.h5", "best.h5", "step-00000001.h5", "step-00000004.h5", "step-00000005.h5"}));
  EXPECT_EQ(read_checkpoint(folder.path("best.h5")).state.step, 4);
  EXPECT_EQ(read_checkpoint(folder.path("best-2.h5")).state.step, 1);
  EXPECT_EQ(best_checkpoint_of(folder.path()),
            std::filesystem::canonical(folder.path("step-00000004.h5")).string());
  EXPECT_NE(better_checkpoint_note(folder.path(), folder.path("step-00000005.h5")), "");
  EXPECT_EQ(better_checkpoint_note(folder.path(), folder.path("step-00000004.h5")), "");

  save(6, {4});  // checkpoint.keep_best = 1 now

  EXPECT_EQ(folder.names(), (Names{"best.h5", "step-00000004.h5", "step-00000006.h5"}));
}

TEST_F(CheckpointFolders, KeepsTheBestThatThereIsWhereABetterOneWasNotSaved) {
  CheckpointFolder checkpoints(folder.path());
  write_step(folder.path(), 1);
  checkpoints.mark_best({1});
  write_step(folder.path(), 3);

  checkpoints.mark_best({2});
  checkpoints.saved(3, 1);

  EXPECT_EQ(folder.names(), (Names{"best.h5", "step-00000001.h5", "step-00000003.h5"}));
}

TEST_F(CheckpointFolders, NeitherCountsNorRemovesDamagedOnes) {
  for (const std::int64_t step : {1, 2, 3, 4, 5}) write_step(folder.path(), step);
  put_bytes(folder.path("step-00000004.h5"), {});
  put_bytes(folder.path("step-00000002.h5"), {});
  CheckpointFolder checkpoints(folder.path());

  checkpoints.saved(5, 2);

  EXPECT_EQ(folder.names(),
            (Names{"step-00000002.h5", "step-00000003.h5", "step-00000004.h5", "step-00000005.h5"}));
}

TEST_F(CheckpointFolders, KeepsLaterOnesOfARunThatWasSetBackAndFilesOfOtherNames) {
  for (const std::int64_t step : {1, 2, 90}) write_step(folder.path(), step);
  put_bytes(folder.path("step-1.h5.bak"), {});
  put_bytes(folder.path("step-one.h5"), {});
  CheckpointFolder checkpoints(folder.path());

  checkpoints.saved(2, 1);

  EXPECT_EQ(folder.names(), (Names{"step-00000002.h5", "step-00000090.h5", "step-1.h5.bak", "step-one.h5"}));
}

TEST_F(CheckpointFolders, RemovesUnfinishedFilesAndNothingElse) {
  for (const char* name : {"step-00000001.h5", "step-00000002.h5.tmp-77", "step-00000002.h5.tmp-",
                           "model.h5.tmp-7", "step-2.h5.tmp-7x", "step-.h5.tmp-7"})
    put_bytes(folder.path(name), {});

  CheckpointFolder(folder.path()).remove_unfinished();

  EXPECT_EQ(folder.names(), (Names{"model.h5.tmp-7", "step-.h5.tmp-7", "step-00000001.h5",
                                   "step-00000002.h5.tmp-", "step-2.h5.tmp-7x"}));
}

// Checkpoints to which every worker adds a part, the workers being writers of one process.

namespace {

using Names = std::vector<std::string>;

class FailingSource : public SnapshotSource {
 public:
  using SnapshotSource::SnapshotSource;
  std::span<const float> values(std::size_t) override { throw UserError("the cable was cut"); }
};

std::string found_by(const std::string& folder, int workers, std::string& complaints) {
  return find_newest_good(
             folder, [&](const std::string& text) { complaints += text; }, workers)
      .value_or("");
}

}  // namespace

using CheckpointParts = test::InFolder;

TEST_F(CheckpointParts, LieBesideTheCheckpointThatNamesThem) {
  SavingPair workers(folder.path());

  const SaveReport report = workers.save(7);

  EXPECT_EQ(report.error, "");
  EXPECT_EQ(folder.names(), (Names{"step-00000007.h5", "step-00000007.parts"}));
  const Snapshot checkpoint = read_checkpoint(report.path);
  ASSERT_EQ(checkpoint.state.parts.size(), 2U);
  std::int64_t bytes = static_cast<std::int64_t>(bytes_of(report.path).size());
  for (const int rank : {0, 1}) {
    const CheckpointPart& part = checkpoint.state.parts[static_cast<std::size_t>(rank)];
    const std::string path = folder.path(cat("step-00000007.parts/worker-000", rank, ".h5"));
    EXPECT_EQ(part.name, cat("worker-000", rank, ".h5"));
    EXPECT_EQ(part.bytes, static_cast<std::int64_t>(bytes_of(path).size()));
    EXPECT_EQ(part_damage(report.path, part), "");
    EXPECT_EQ(read_checkpoint(path).values, own_snapshot(7, rank).values);
    EXPECT_EQ(read_checkpoint(path).state.step, 7);
    bytes += part.bytes;
  }
  EXPECT_EQ(report.bytes, bytes);
}

TEST_F(CheckpointParts, OfWhichOneFailedLeaveNoCheckpointAndNameTheWorker) {
  SavingPair workers(folder.path());
  workers.save(1);

  workers.start(2, 0);
  workers.start(2, 1, std::make_shared<FailingSource>(own_snapshot(2, 1)));
  const SaveReport report = workers.finish();

  EXPECT_TRUE(mentions(report.error, {"step 2 was not saved", "rank 1 on a: ", "the cable was cut"}));
  EXPECT_EQ(folder.names(), (Names{"step-00000001.h5", "step-00000001.parts"}));
  EXPECT_EQ(workers.save(3).error, "");
}

// A run that was set back and takes another course saves a step twice.
TEST_F(CheckpointParts, OfASaveThatFailedLeaveAnEarlierCheckpointOfItsStepGood) {
  SavingPair workers(folder.path());
  const std::string earlier = workers.save(2).path;
  const auto state_of_all = bytes_of(earlier);
  std::string complaints;

  workers.start(2, 0, std::make_shared<SnapshotSource>(own_snapshot(2, 7)));
  workers.start(2, 1, std::make_shared<FailingSource>(own_snapshot(2, 8)));

  EXPECT_TRUE(mentions(workers.finish().error, {"step 2 was not saved", "the cable was cut"}));
  EXPECT_EQ(found_by(folder.path(), 2, complaints), earlier);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(bytes_of(earlier), state_of_all);
  for (const int rank : {0, 1})
    EXPECT_EQ(read_checkpoint(folder.path(cat("step-00000002.parts/worker-000", rank, ".h5"))).values,
              own_snapshot(2, rank).values);
}

TEST_F(CheckpointParts, GoWithTheCheckpointThatIsNotKept) {
  SavingPair workers(folder.path(), 1);

  for (const std::int64_t step : {1, 2}) workers.save(step);

  EXPECT_EQ(folder.names(), (Names{"step-00000002.h5", "step-00000002.parts"}));
}

TEST_F(CheckpointParts, WithoutACheckpointAreRemovedAtTheNextStartButNotFilesOfOthers) {
  {
    SavingPair workers(folder.path(), 9);
    for (const std::int64_t step : {1, 2, 3}) workers.save(step);
  }
  for (const char* step : {"2", "3"}) std::filesystem::remove(folder.path(cat("step-0000000", step, ".h5")));
  for (const char* step : {"1", "3"})
    put_bytes(folder.path(cat("step-0000000", step, ".parts/worker-0001.h5.tmp-5")), {});
  put_bytes(folder.path("step-00000002.parts/notes.txt"), {});

  const CheckpointWriter next(folder.path(), 2);

  EXPECT_EQ(folder.names(), (Names{"step-00000001.h5", "step-00000001.parts", "step-00000002.parts"}));
  EXPECT_EQ(bytes_of(folder.path("step-00000002.parts/worker-0000.h5")).size(), 0U);
  EXPECT_FALSE(std::filesystem::exists(folder.path("step-00000001.parts/worker-0001.h5.tmp-5")));
  std::string complaints;
  EXPECT_EQ(found_by(folder.path(), 2, complaints), folder.path("step-00000001.h5"));
}

TEST_F(CheckpointParts, ThatAreMissingOrDamagedMatterToAsManyWorkersOnly) {
  SavingPair workers(folder.path());
  for (const std::int64_t step : {1, 2}) workers.save(step);
  const std::string part = folder.path("step-00000002.parts/worker-0001.h5");
  const auto whole = bytes_of(part);
  const std::string older = folder.path("step-00000001.h5");
  const std::string newer = folder.path("step-00000002.h5");
  const auto check = [&](const Names& words) {
    std::string complaints;
    EXPECT_EQ(found_by(folder.path(), 2, complaints), older);
    EXPECT_TRUE(mentions(complaints, {newer, "worker-0001.h5"}));
    EXPECT_TRUE(mentions(complaints, words));
    EXPECT_EQ(found_by(folder.path(), 3, complaints), newer);
    EXPECT_EQ(found_by(folder.path(), -1, complaints), newer);
    EXPECT_TRUE(mentions(inspect(newer, {}).damage, words));
  };

  std::filesystem::remove(part);
  check({"No such file"});
  put_bytes(part, {whole.begin(), whole.end() - 9});
  check({"damaged"});
  put_bytes(part, bytes_of(folder.path("step-00000001.parts/worker-0001.h5")));
  check({"another save"});
  put_bytes(part, whole);
  std::string complaints;
  EXPECT_EQ(found_by(folder.path(), 2, complaints), newer);
}

// A worker that left out a save would from then on exchange texts of two different ones with the others.
TEST_F(CheckpointParts, OfAnotherSaveAreRefusedAndTheEarlierCheckpointStays) {
  SavingPair workers(folder.path(), 1);
  const std::string good = workers.save(20).path;

  workers.start(60, 0);
  workers.start(40, 1);
  for (const int rank : {0, 1}) workers.writer(rank).finish();

  EXPECT_TRUE(mentions(workers.writer(0).reports().at(0).error,
                       {"step 60 was not saved", "rank 1 on a: ", "the save of step 40"}));
  EXPECT_TRUE(mentions(workers.writer(1).reports().at(0).error,
                       {"step 40 was not saved", "rank 0 on a", "the save of step 60"}));
  std::string complaints;
  EXPECT_EQ(found_by(folder.path(), 2, complaints), good);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(workers.save(80).error, "");
}

TEST_F(CheckpointParts, OfNamesThatLeaveTheirFolderAreNotOpened) {
  SavingPair workers(folder.path());
  const std::string older = workers.save(1).path;
  for (const char* name : {"../../other.h5", "/tmp/worker-0001.h5", "worker-0001.h5.tmp-7", ""}) {
    write_checkpoint_file(folder.path("step-00000002.h5"), sample_snapshot(2));
    set_attribute(folder.path("step-00000002.h5"), "parts",
                  cat(R"([{"name": ")", name, R"(", "bytes": 1, "xxh3": "0000000000000000"}])"));
    std::string complaints;

    EXPECT_EQ(found_by(folder.path(), 3, complaints), older);

    EXPECT_TRUE(mentions(complaints, {"step-00000002.h5", cat("'", name, "'"), "no name of a part"}));
    EXPECT_TRUE(mentions(inspect(folder.path("step-00000002.h5"), {}).damage, {"no name of a part"}));
  }
}

TEST_F(CheckpointParts, LetTrainingGoOnBeforeTheOtherWorkersAreDone) {
  SavingPair workers(folder.path());
  workers.start(7, 0);

  workers.writer(0).wait_until_read();  // would not end if it were for the checkpoint

  EXPECT_FALSE(std::filesystem::exists(folder.path("step-00000007.h5")));
  workers.start(7, 1);
  EXPECT_EQ(workers.finish().error, "");
}

}  // namespace flotilla
