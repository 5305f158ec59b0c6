// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/commands/inspect.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/support/temporary_folder.hpp"

// Checkpoints to which every worker adds a part, the workers being writers of one process.

namespace flotilla {

namespace {

using Names = std::vector<std::string>;

/// Two workers' exchange of texts.
class Exchange {
 public:
  std::vector<std::string> operator()(std::size_t rank, const std::string& mine) {
    std::unique_lock lock(mutex_);
    texts_[rank] = mine;
    const std::int64_t round = round_;
    if (++arrived_ == 2) {
      all_ = texts_;
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Names texts_ = Names(2);
  Names all_;
  int arrived_ = 0;
  std::int64_t round_ = 0;
};

class FailingSource : public SnapshotSource {
 public:
  using SnapshotSource::SnapshotSource;
  std::span<const float> values(std::size_t) override { throw UserError("the cable was cut"); }
};

/// What worker `rank` holds.
Snapshot own_snapshot(std::int64_t step, int rank) {
  Snapshot snapshot = sample_snapshot(step);
  snapshot.tensors.clear();
  snapshot.values.clear();
  add_tensor(snapshot, "parameters/layers.0.weight", {3, 5}, static_cast<float>(1000 * rank));
  return snapshot;
}

/// Two workers that save into one folder.
class Workers {
 public:
  explicit Workers(const std::string& folder, std::int64_t keep = 2) {
    for (int rank = 0; rank < 2; ++rank)
      writers_.push_back(std::make_unique<CheckpointWriter>(
          folder, keep, SavingWorkers{.rank = rank, .exchange = [this, rank](const std::string& mine) {
                                        return exchange_(static_cast<std::size_t>(rank), mine);
                                      }}));
  }
  void start(std::int64_t step, int rank, std::shared_ptr<ValueSource> own) {
    Save save = save_of(sample_snapshot(step));
    if (rank > 0) save.shared = nullptr;
    save.own = std::move(own);
    writer(rank).start(std::move(save));
  }
  SaveReport save(std::int64_t step, bool last_fails = false) {
    start(step, 0, std::make_shared<SnapshotSource>(own_snapshot(step, 0)));
    if (last_fails)
      start(step, 1, std::make_shared<FailingSource>(own_snapshot(step, 1)));
    else
      start(step, 1, std::make_shared<SnapshotSource>(own_snapshot(step, 1)));
    for (const auto& writer : writers_) writer->finish();
    const SaveReport report = writer(0).reports().at(0);
    EXPECT_EQ(writer(1).reports().at(0).error, report.error) << "all learn what became of it";
    return report;
  }
  CheckpointWriter& writer(int rank) { return *writers_[static_cast<std::size_t>(rank)]; }

 private:
  Exchange exchange_;
  std::vector<std::unique_ptr<CheckpointWriter>> writers_;
};

std::string found_by(const std::string& folder, int workers, std::string& complaints) {
  return find_newest_good(
             folder, [&](const std::string& text) { complaints += text; }, workers)
      .value_or("");
}

}  // namespace

TEST(CheckpointParts, LieBesideTheCheckpointThatNamesThem) {
  const test::TemporaryFolder folder;
  Workers workers(folder.path());

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
  Workers workers(folder.path());
  workers.save(1);

  const SaveReport report = workers.save(2, true);

  EXPECT_TRUE(mentions(report.error, {"step 2 was not saved", "worker 1", "the cable was cut"}));
  EXPECT_EQ(folder.names(), (Names{"step-00000001.h5", "step-00000001.parts"}));
  EXPECT_EQ(workers.save(3).error, "");
}

// As a run does that was set back and goes another way.
TEST(CheckpointParts, OfASaveThatFailedLeaveAnEarlierCheckpointOfItsStepGood) {
  const test::TemporaryFolder folder;
  Workers workers(folder.path());
  const std::string earlier = workers.save(2).path;
  const auto state_of_all = bytes_of(earlier);
  std::string complaints;

  workers.start(2, 0, std::make_shared<SnapshotSource>(own_snapshot(2, 7)));
  workers.start(2, 1, std::make_shared<FailingSource>(own_snapshot(2, 8)));
  for (const int rank : {0, 1}) workers.writer(rank).finish();

  EXPECT_TRUE(
      mentions(workers.writer(0).reports().at(0).error, {"step 2 was not saved", "the cable was cut"}));
  EXPECT_EQ(found_by(folder.path(), 2, complaints), earlier);
  EXPECT_EQ(complaints, "");
  EXPECT_EQ(bytes_of(earlier), state_of_all);
  for (const int rank : {0, 1})
    EXPECT_EQ(read_checkpoint(folder.path(cat("step-00000002.parts/worker-000", rank, ".h5"))).values,
              own_snapshot(2, rank).values);
}

TEST(CheckpointParts, GoWithTheCheckpointThatIsNotKept) {
  const test::TemporaryFolder folder;
  Workers workers(folder.path(), 1);

  for (const std::int64_t step : {1, 2}) workers.save(step);

  EXPECT_EQ(folder.names(), (Names{"step-00000002.h5", "step-00000002.parts"}));
}

TEST(CheckpointParts, WithoutACheckpointAreRemovedAtTheNextStartButNotFilesOfOthers) {
  const test::TemporaryFolder folder;
  {
    Workers workers(folder.path());
    for (const std::int64_t step : {1, 2, 3}) workers.save(step);
  }
  for (const char* step : {"2", "3"}) std::filesystem::remove(folder.path(cat("step-0000000", step, ".h5")));
  put_bytes(folder.path("step-00000003.parts/worker-0001.h5.tmp-5"), {});
  put_bytes(folder.path("step-00000002.parts/notes.txt"), {});

  const CheckpointWriter next(folder.path(), 2);

  EXPECT_EQ(folder.names(), (Names{"step-00000002.parts"}));
  EXPECT_EQ(bytes_of(folder.path("step-00000002.parts/worker-0000.h5")).size(), 0U);
}

TEST(CheckpointParts, ThatAreMissingOrDamagedMatterToAsManyWorkersOnly) {
  const test::TemporaryFolder folder;
  Workers workers(folder.path());
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

TEST(CheckpointParts, LetTrainingGoOnBeforeTheOtherWorkersAreDone) {
  const test::TemporaryFolder folder;
  Workers workers(folder.path());
  workers.start(7, 0, std::make_shared<SnapshotSource>(own_snapshot(7, 0)));

  workers.writer(0).wait_until_read();  // would not end if it were for the checkpoint

  EXPECT_FALSE(std::filesystem::exists(folder.path("step-00000007.h5")));
  workers.start(7, 1, std::make_shared<SnapshotSource>(own_snapshot(7, 1)));
  workers.writer(0).finish();
  EXPECT_EQ(workers.writer(0).reports().at(0).error, "");
}

}  // namespace flotilla
