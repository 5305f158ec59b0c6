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
#include "tests/support/temporary_folder.hpp"

// Checkpoints to which every worker adds a part, the workers being writers of one process.

namespace flotilla {

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

TEST(CheckpointParts, LieBesideTheCheckpointThatNamesThem) {
  const test::TemporaryFolder folder;
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

TEST(CheckpointParts, OfWhichOneFailedLeaveNoCheckpointAndNameTheWorker) {
  const test::TemporaryFolder folder;
  SavingPair workers(folder.path());
  workers.save(1);

  workers.start(2, 0);
  workers.start(2, 1, std::make_shared<FailingSource>(own_snapshot(2, 1)));
  const SaveReport report = workers.finish();

  EXPECT_TRUE(mentions(report.error, {"step 2 was not saved", "worker 1", "the cable was cut"}));
  EXPECT_EQ(folder.names(), (Names{"step-00000001.h5", "step-00000001.parts"}));
  EXPECT_EQ(workers.save(3).error, "");
}

// As a run does that was set back and goes another way.
TEST(CheckpointParts, OfASaveThatFailedLeaveAnEarlierCheckpointOfItsStepGood) {
  const test::TemporaryFolder folder;
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

TEST(CheckpointParts, GoWithTheCheckpointThatIsNotKept) {
  const test::TemporaryFolder folder;
  SavingPair workers(folder.path(), 1);

  for (const std::int64_t step : {1, 2}) workers.save(step);

  EXPECT_EQ(folder.names(), (Names{"step-00000002.h5", "step-00000002.parts"}));
}

TEST(CheckpointParts, WithoutACheckpointAreRemovedAtTheNextStartButNotFilesOfOthers) {
  const test::TemporaryFolder folder;
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

TEST(CheckpointParts, ThatAreMissingOrDamagedMatterToAsManyWorkersOnly) {
  const test::TemporaryFolder folder;
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
TEST(CheckpointParts, OfAnotherSaveAreRefusedAndTheEarlierCheckpointStays) {
  const test::TemporaryFolder folder;
  SavingPair workers(folder.path(), 1);
  const std::string good = workers.save(20).path;

  workers.start(60, 0);
  workers.start(40, 1);
  for (const int rank : {0, 1}) workers.writer(rank).finish();

  EXPECT_TRUE(mentions(workers.writer(0).reports().at(0).error,
                       {"step 60 was not saved", "worker 1", "the save of step 40"}));
  EXPECT_TRUE(mentions(workers.writer(1).reports().at(0).error,
                       {"step 40 was not saved", "worker 0", "the save of step 60"}));
  std::string complaints;
  EXPECT_EQ(found_by(folder.path(), 2, complaints), good);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(workers.save(80).error, "");
}

TEST(CheckpointParts, OfNamesThatLeaveTheirFolderAreNotOpened) {
  const test::TemporaryFolder folder;
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

TEST(CheckpointParts, LetTrainingGoOnBeforeTheOtherWorkersAreDone) {
  const test::TemporaryFolder folder;
  SavingPair workers(folder.path());
  workers.start(7, 0);

  workers.writer(0).wait_until_read();  // would not end if it were for the checkpoint

  EXPECT_FALSE(std::filesystem::exists(folder.path("step-00000007.h5")));
  workers.start(7, 1);
  EXPECT_EQ(workers.finish().error, "");
}

}  // namespace flotilla
