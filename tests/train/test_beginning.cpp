// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/config/deck.hpp"
#include "src/train/find_checkpoint.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/agreed_failure.hpp"

// Tests from which state a run begins with run.resume = "auto", on 1 and 2 workers.

namespace {

/// What opening a folder named "checkpoints" fails with; 0: nothing.
std::atomic<int> folder_error = 0;

/// What opening, or reading, the checkpoint of step 40 fails with; 0: nothing. Where `calls_before` is not
/// 0, as many calls succeed before.
std::atomic<int> open_error = 0;
std::atomic<int> read_error = 0;
std::atomic<int> calls_before = 0;

bool is_of_step_40(const char* path) {
  return std::string_view(path).ends_with("step-00000040.h5");
}

/// Whether this is the call to fail.
bool fails_now(const std::atomic<int>& error) {
  return error != 0 && --calls_before < 0;
}

bool open_fails(const char* path) {
  if (!is_of_step_40(path) || !fails_now(open_error)) return false;
  errno = open_error;
  return true;
}

}  // namespace

extern "C" int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_fails(path) ? -1 : static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

extern "C" int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_fails(path) ? -1 : static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

extern "C" ssize_t pread(int file, void* bytes, size_t count, off_t position) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  if (::readlink(link.c_str(), path.data(), path.size() - 1) > 0 && is_of_step_40(path.data()) &&
      fails_now(read_error)) {
    errno = read_error;
    return -1;
  }
  return ::syscall(SYS_pread64, file, bytes, count, position);
}

extern "C" ssize_t pread64(int file, void* bytes, size_t count, off_t position) {
  return pread(file, bytes, count, position);
}

extern "C" int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (folder_error != 0 && std::string_view(path).ends_with("/checkpoints")) {
    errno = folder_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}

namespace flotilla {
namespace {

using test::mentions;

namespace fs = std::filesystem;

class Beginning : public testing::Test {
 protected:
  Beginning() {
    output_ = own_.path();
    world_.broadcast(output_);
    deck_ = load_deck({.path = "test.toml",
                       .text = read_deck_file(FLOTILLA_SOURCE_DIR "/inputs/mlp_random.toml"),
                       .overrides = {"run.output=" + output_}});
  }
  ~Beginning() override { world_.barrier(); }

  std::optional<LoadedCheckpoint> find() {
    return find_beginning(deck_.config, world_, watchdog_, warnings_);
  }
  /// The sentence and exit code of a run that cannot begin.
  std::string refusal() {
    return test::failure_of([&] { find(); });
  }
  void write(std::int64_t step, std::vector<CheckpointPart> parts) const {
    if (!world_.is_root()) return;
    Snapshot snapshot;
    snapshot.state.step = step;
    snapshot.state.deck = deck_.config.resolved_text;
    snapshot.state.parts = std::move(parts);
    snapshot.tensors = {{.path = "parameters/a", .shape = {1}}};
    snapshot.values = {0.5F};
    fs::create_directories(output_ + "/checkpoints");
    write_checkpoint_file(output_ + "/checkpoints/" + CheckpointFolder::file_name(step), snapshot);
  }

  mpi::Communicator world_ = mpi::Communicator::world();
  mpi::Watchdog watchdog_{0.0, nullptr};
  test::TemporaryFolder own_;
  std::string output_;
  LoadedDeck deck_;
  std::vector<std::string> warnings_;
};

TEST_F(Beginning, IsTheStartWhereNoFolderIsThere) {
  EXPECT_FALSE(find().has_value());
  if (world_.is_root()) fs::create_directory(output_ + "/checkpoints");
  world_.barrier();
  EXPECT_FALSE(find().has_value());
}

// A run that took that for "no checkpoints" would empty metrics.jsonl and remove checkpoints as it saves.
TEST_F(Beginning, IsRefusedWhereTheFolderCannotBeRead) {
  write(20, {});
  for (const int error : {EIO, ESTALE, EACCES, ENOTDIR}) {
    folder_error = error;
    const std::string text = refusal();
    folder_error = 0;

    EXPECT_TRUE(mentions(text, {output_ + "/checkpoints", std::strerror(error), "nothing was changed"}));
  }
  EXPECT_EQ(find()->state.step, 20);
}

// An older one in its place would lose the steps between them.
TEST_F(Beginning, IsRefusedWhereTheNewestCheckpointCannotBeRead) {
  write(20, {});
  write(40, {});
  world_.barrier();
  int refusals = 0;
  for (std::atomic<int>* const call : {&open_error, &read_error}) {
    for (const int error : {EIO, ESTALE, EACCES, EMFILE, ENOMEM}) {
      // Flotilla's own calls and those of HDF5, one after the other.
      for (int before = 0;; ++before) {
        calls_before = before;
        *call = error;
        const std::string text = refusal();
        *call = 0;
        world_.barrier();
        if (text.empty()) break;
        ++refusals;
        EXPECT_TRUE(
            mentions(text, {output_ + "/checkpoints/step-00000040.h5", std::strerror(error),
                            "nothing was changed: make it readable, or move it away to use an older one"}));
      }
    }
  }
  EXPECT_GE(refusals, 5 * (2 + 5)) << "opened by Flotilla and by HDF5, read piece by piece";
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(find()->state.step, 40);
}

TEST_F(Beginning, IsAnOlderCheckpointWhereTheNewestIsCutOff) {
  write(20, {});
  write(40, {});
  if (world_.is_root()) fs::resize_file(output_ + "/checkpoints/step-00000040.h5", 1000);
  world_.barrier();

  EXPECT_EQ(find()->state.step, 20);
}

TEST_F(Beginning, IsRefusedWhereAFileIsInThePlaceOfTheFolder) {
  if (world_.is_root()) std::ofstream(output_ + "/checkpoints") << "a file\n";
  world_.barrier();

  const std::string text = refusal();

  EXPECT_TRUE(mentions(text, {"Not a directory"}));
}

TEST_F(Beginning, IsRefusedWhereTheRunsFolderIsAFile) {
  if (world_.is_root()) {
    fs::remove_all(output_);
    std::ofstream(output_) << "a file\n";
  }
  world_.barrier();

  const std::string text = refusal();
  world_.barrier();
  if (world_.is_root()) fs::remove(output_);

  EXPECT_TRUE(mentions(text, {"run.output " + output_ + " is a file; name a folder"}));
}

// Checkpoints as an old version left them when the save of a server had failed.
TEST_F(Beginning, IsTheCommonModelWhereNoCheckpointHasGoodPartsOfAllWorkers) {
  const std::vector<CheckpointPart> missing(static_cast<std::size_t>(world_.size()),
                                            {.name = "worker-0000.h5", .bytes = 1, .checksum = 1});
  for (const std::int64_t step : {20, 40}) write(step, missing);

  const auto found = find();

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->state.step, 40);
  EXPECT_TRUE(found->state.parts.empty()) << "no worker is to look for its own";
  if (!world_.is_root()) return;
  ASSERT_EQ(warnings_.size(), 3U);
  EXPECT_TRUE(mentions(warnings_[0], {"step-00000040.h5' is damaged and was passed over"}));
  EXPECT_TRUE(mentions(warnings_[2], {"what each held for itself is lost"}));
}

TEST_F(Beginning, IsAnOlderCheckpointWithPartsRatherThanANewerWithout) {
  write(20, {});
  write(40, std::vector<CheckpointPart>(static_cast<std::size_t>(world_.size()),
                                        {.name = "worker-0000.h5", .bytes = 1, .checksum = 1}));

  EXPECT_EQ(find()->state.step, 20);
}

}  // namespace
}  // namespace flotilla
