// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/saving_pair.hpp"
#include "tests/checkpoint/watched_calls.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/temporary_folder.hpp"

// What a machine that loses its power leaves of a run's folder, before each call on its files: what was
// synced, and of the rest as little or as much as a file system may keep.

namespace flotilla {

namespace {

namespace fs = std::filesystem;

/// What is certain to be on the disk below a folder.
class DurableDisk {
 public:
  /// What becomes of changes to folders that were not synced; values that were not are lost.
  enum class Unsynced { lost, kept, removals_kept };

  explicit DurableDisk(std::string root) : root_(std::move(root)) {}

  /// A file or folder is synced as it is now.
  void synced(const std::string& path) {
    if (fs::is_directory(path))
      entries_[path] = entries_of(path);
    else
      contents_[inode_of(path)] = text_of(path);
  }

  /// Puts into an empty folder what is left.
  void restore(const std::string& to, Unsynced unsynced) const { restore(root_, to, unsynced); }

 private:
  using Entries = std::map<std::string, ino_t>;

  static ino_t inode_of(const fs::path& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
  }
  static std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static Entries entries_of(const fs::path& folder) {
    Entries entries;
    std::error_code gone;  // another worker's thread may just remove it
    for (fs::directory_iterator at(folder, gone), end; !gone && at != end; at.increment(gone))
      entries[at->path().filename().string()] = inode_of(at->path());
    return entries;
  }

  void restore(const fs::path& from, const fs::path& to, Unsynced unsynced) const {
    const auto known = entries_.find(from.string());
    Entries entries = known == entries_.end() ? Entries() : known->second;
    const Entries now = entries_of(from);
    if (unsynced == Unsynced::kept) entries = now;
    for (const auto& [name, inode] : entries) {
      if (unsynced == Unsynced::removals_kept && !now.contains(name)) continue;
      const auto content = contents_.find(inode);
      // The name decides: a folder may have got the inode of a file that was removed.
      if (name.find(".h5") == std::string::npos) {
        fs::create_directory(to / name);
        restore(from / name, to / name, unsynced);
      } else {
        std::ofstream(to / name, std::ios::binary) << (content == contents_.end() ? "" : content->second);
      }
    }
  }

  std::string root_;
  std::map<std::string, Entries> entries_;
  std::map<ino_t, std::string> contents_;
};

/// Two workers and two servers that save every few steps, on a disk that may lose its power before any call.
class PowerLoss : public testing::Test {
 protected:
  PowerLoss() : calls_(folder_.path()) {
    calls_.fault = [this](const std::string& call, const std::string& path) {
      if (call == "read") return 0;
      const std::lock_guard lock(mutex_);
      look(call + " " + path);
      const bool gives_name = last_call_ == "rename";
      last_call_ = call;
      if (fails_to_sync_names_ && call == "sync" && gives_name && path == checkpoints_) return EIO;
      if (call == "sync") disk_.synced(path);
      return 0;
    };
    pair_.emplace(checkpoints_, 1);
  }

  SaveReport save(std::int64_t step, bool parts) {
    SaveReport report;
    if (parts) {
      report = pair_->save(step, save_server_parts(CheckpointFolder(checkpoints_), step));
    } else {
      pair_->writer(0).start(save_of(sample_snapshot(step)));
      pair_->writer(0).finish();
      report = pair_->writer(0).reports().at(0);
    }
    if (report.error.empty() && report.warning.empty()) reported_ = step;
    return report;
  }

  /// The power is lost now.
  void look(const std::string& call) {
    if (reported_ == 0) return;
    ++looks_;
    for (const auto unsynced :
         {DurableDisk::Unsynced::lost, DurableDisk::Unsynced::kept, DurableDisk::Unsynced::removals_kept}) {
      const test::TemporaryFolder left;
      disk_.restore(left.path(), unsynced);
      std::string said;
      const auto newest = find_newest_good(
          left.path("run"), [&](const std::string& why) { said += why + "; "; }, 2);
      const std::int64_t step = newest ? read_checkpoint(*newest).state.step : -1;
      EXPECT_GE(step, reported_.load())
          << "before " << call << ", unsynced " << static_cast<int>(unsynced) << ": " << said;
    }
  }

  test::TemporaryFolder folder_;
  std::string checkpoints_ = folder_.path("run/checkpoints");
  DurableDisk disk_{folder_.path()};
  std::mutex mutex_;
  std::string last_call_;
  bool fails_to_sync_names_ = false;  ///< The folder, after a checkpoint got its name
  std::atomic<std::int64_t> reported_ = 0;
  int looks_ = 0;
  WatchedCalls calls_;
  std::optional<SavingPair> pair_;
};

}  // namespace

TEST_F(PowerLoss, LeavesTheNewestReportedCheckpointWithItsParts) {
  for (const std::int64_t step : {20, 40, 60}) EXPECT_EQ(save(step, true).error, "");
  look("the end");

  EXPECT_GT(looks_, 50);
}

TEST_F(PowerLoss, LeavesTheNewestReportedCheckpointWithoutParts) {
  for (const std::int64_t step : {20, 40, 60}) EXPECT_EQ(save(step, false).error, "");
  look("the end");

  EXPECT_GT(looks_, 5);
}

TEST_F(PowerLoss, LeavesTheOlderCheckpointWhereTheFolderOfTheNewerCannotBeSynced) {
  EXPECT_EQ(save(20, true).error, "");
  fails_to_sync_names_ = true;
  EXPECT_NE(save(40, true).warning, "");
  fails_to_sync_names_ = false;
  EXPECT_EQ(save(60, true).error, "");
  look("the end");
}

}  // namespace flotilla
