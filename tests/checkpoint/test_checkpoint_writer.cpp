// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "kernels/error.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {

namespace {

void save(CheckpointWriter& writer, std::int64_t step) {
  writer.start(save_of(sample_snapshot(step)));
}

}  // namespace

using CheckpointWriters = test::InFolder;

TEST_F(CheckpointWriters, SavesReportsAndKeepsTheLast) {
  CheckpointWriter writer(folder.path("run/checkpoints"), 2);

  for (const std::int64_t step : {10, 20, 30}) save(writer, step);
  writer.finish();
  const std::vector<SaveReport> reports = writer.reports();

  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[2].step, 30);
  EXPECT_EQ(reports[2].path, folder.path("run/checkpoints/step-00000030.h5"));
  EXPECT_EQ(reports[2].error, "");
  EXPECT_EQ(reports[2].bytes, static_cast<std::int64_t>(bytes_of(reports[2].path).size()));
  EXPECT_GT(reports[2].write_s, 0.0);
  EXPECT_TRUE(writer.reports().empty());
  EXPECT_TRUE(bytes_of(reports[0].path).empty()) << "the first was to be removed";
  EXPECT_TRUE(equal(read_checkpoint(reports[1].path), sample_snapshot(20)));
  EXPECT_TRUE(equal(read_checkpoint(reports[2].path), sample_snapshot(30)));
}

TEST_F(CheckpointWriters, MakesAFolderThatWasRemovedAnew) {
  CheckpointWriter writer(folder.path("run/checkpoints"), 1);
  std::filesystem::remove_all(folder.path("run"));

  save(writer, 7);
  writer.finish();

  EXPECT_EQ(writer.reports().at(0).error, "");
  EXPECT_TRUE(equal(read_checkpoint(folder.path("run/checkpoints/step-00000007.h5")), sample_snapshot(7)));
}

/// No memory is left for its values.
class HungrySource : public ValueSource {
 public:
  std::span<const CheckpointTensor> tensors() const override { return tensors_; }
  std::span<const float> values(std::size_t) override { throw std::bad_alloc(); }

 private:
  std::vector<CheckpointTensor> tensors_ = sample_snapshot(7).tensors;
};

TEST_F(CheckpointWriters, TellsOfMissingMemoryInWords) {
  CheckpointWriter writer(folder.path(), 1);

  writer.start({.state = sample_snapshot(7).state, .shared = std::make_shared<HungrySource>()});
  writer.finish();

  const std::string error = writer.reports().at(0).error;
  EXPECT_TRUE(mentions(error, {"the checkpoint of step 7 was not saved: out of memory"}));
}

/// Notes which signals its thread blocks.
class SignalSource : public HungrySource {
 public:
  explicit SignalSource(sigset_t& blocked) : blocked_(blocked) {}
  std::span<const float> values(std::size_t tensor) override {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked_);
    return HungrySource::values(tensor);
  }

 private:
  sigset_t& blocked_;
};

TEST_F(CheckpointWriters, LeavesRequestsToOtherThreadsAndCrashesToTheirHandlers) {
  CheckpointWriter writer(folder.path(), 1);
  sigset_t blocked;
  sigemptyset(&blocked);

  writer.start({.state = sample_snapshot(7).state, .shared = std::make_shared<SignalSource>(blocked)});
  writer.finish();

  for (const int request : {SIGUSR1, SIGTERM, SIGXFSZ})
    EXPECT_TRUE(sigismember(&blocked, request)) << request;
  for (const int crash : {SIGSEGV, SIGFPE}) EXPECT_FALSE(sigismember(&blocked, crash)) << crash;
}

/// Threads of this process get stacks that no machine has room for.
class NoRoomForThreads {
 public:
  NoRoomForThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 60);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  NoRoomForThreads(const NoRoomForThreads&) = delete;
  NoRoomForThreads& operator=(const NoRoomForThreads&) = delete;
  ~NoRoomForThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

TEST_F(CheckpointWriters, LeavesSignalsAsTheyAreWhereItsThreadCannotStart) {
  CheckpointWriter writer(folder.path(), 1);
  {
    const NoRoomForThreads crowded;
    EXPECT_THROW(save(writer, 7), std::system_error);
  }

  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_FALSE(sigismember(&blocked, SIGUSR1));
  save(writer, 7);
  writer.finish();
  EXPECT_EQ(writer.reports().at(0).error, "");
}

TEST_F(CheckpointWriters, FinishesTheSaveInItsDestructor) {
  {
    CheckpointWriter writer(folder.path(), 1);
    save(writer, 7);
  }

  EXPECT_TRUE(equal(read_checkpoint(folder.path("step-00000007.h5")), sample_snapshot(7)));
}

TEST_F(CheckpointWriters, DoesNotWaitWhileAnExceptionIsThrown) {
  try {
    CheckpointWriter writer(folder.path(), 1);
    save(writer, 7);
    throw std::runtime_error("elsewhere");
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "elsewhere");
  }
}

TEST_F(CheckpointWriters, RemovesWhatAKilledRunLeft) {
  put_bytes(folder.path("step-00000004.h5.tmp-17"), {});

  const CheckpointWriter writer(folder.path(), 1);

  EXPECT_TRUE(folder.names().empty());
}

TEST_F(CheckpointWriters, RefusesAFolderThatCannotBeMadeAndKeepingNone) {
  put_bytes(folder.path("file"), {});

  EXPECT_TRUE(mentions(error_of([&] { CheckpointWriter(folder.path("file/checkpoints"), 1); }),
                       {folder.path("file/checkpoints")}));
  EXPECT_THROW(CheckpointWriter(folder.path(), 0), InternalError);
}

TEST_F(CheckpointWriters, ReportsALimitOnFileSizesAndLivesOn) {
  // A plain fork would not do: the writer that an earlier test detached may hold locks.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit_code_under_limit = [&] {
    CheckpointWriter writer(folder.path(), 2);
    save(writer, 1);
    writer.finish();
    const rlimit small{.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &small);
    save(writer, 2);
    writer.finish();
    const auto reports = writer.reports();
    const bool told = mentions(reports.back().error, {"step 2", "ulimit -f"});
    const bool first_only = folder.names() == std::vector<std::string>{"step-00000001.h5"};
    std::filesystem::remove_all(folder.path());  // _exit runs no destructors
    ::_exit(told && first_only && reports.front().error.empty() ? 0 : 1);
  };

  EXPECT_EXIT(exit_code_under_limit(), testing::ExitedWithCode(0), "");
}

TEST(WriteArray, LeavesOneReadableDatasetUnderItsOwnName) {
  const test::TemporaryFolder folder;
  const std::vector<float> values = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};

  write_array(folder.path("v.h5"), "parameters/vectors", {3, 2}, values);
  const Snapshot read = read_weights(folder.path("v.h5"));

  ASSERT_EQ(read.tensors.size(), 1U);
  EXPECT_EQ(read.tensors[0].shape, (Shape{3, 2}));
  EXPECT_EQ(read.values, values);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"v.h5"});
}

}  // namespace flotilla
