// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <span>

#include "kernels/error.hpp"
#include "src/files/atomic_file.hpp"
#include "src/observe/metrics_file.hpp"
#include "src/observe/print.hpp"
#include "tests/files/file_size_limit.hpp"
#include "tests/observe/read_back.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

/// While it lives, stdout is `descriptor`.
class RedirectedStdout {
 public:
  explicit RedirectedStdout(int descriptor) : before_(dup(STDOUT_FILENO)) { dup2(descriptor, STDOUT_FILENO); }
  RedirectedStdout(const RedirectedStdout&) = delete;
  RedirectedStdout& operator=(const RedirectedStdout&) = delete;
  ~RedirectedStdout() {
    dup2(before_, STDOUT_FILENO);
    close(before_);
  }

 private:
  int before_;
};

TEST(File, IsMadeAnewAndNotThroughALink) {
  const test::TemporaryFolder folder;
  write_text_file_atomically(folder.path("target"), "kept");
  std::filesystem::create_symlink(folder.path("target"), folder.path("new"));

  File file = File::create(folder.path("new"));
  file.append(std::as_bytes(std::span("written", 7)));

  EXPECT_EQ(File::open(folder.path("target")).text(), "kept");
  EXPECT_EQ(File::open(folder.path("new")).text(), "written");
  EXPECT_FALSE(std::filesystem::is_symlink(folder.path("new")));
}

TEST(AtomicFile, ReplacesAFileWholeAndLeavesNothingElse) {
  const test::TemporaryFolder folder;
  write_text_file_atomically(folder.path("deck.toml"), "old");

  write_text_file_atomically(folder.path("deck.toml"), "new");

  EXPECT_EQ(text_of(folder.path("deck.toml")), "new");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(AtomicFile, MakesTheFoldersAboveIt) {
  const test::TemporaryFolder folder;

  write_text_file_atomically(folder.path("a/b/c.txt"), "text");

  EXPECT_EQ(text_of(folder.path("a/b/c.txt")), "text");
}

TEST(AtomicFile, WritesIntoAPipeInsteadOfReplacingIt) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);

  write_text_file_atomically(path, "text");

  std::array<char, 8> got{};
  EXPECT_EQ(read(reader, got.data(), got.size()), 4);
  EXPECT_STREQ(got.data(), "text");
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  close(reader);
}

TEST(AtomicFile, VanishesUnlessItIsCommitted) {
  const test::TemporaryFolder folder;
  {
    AtomicFile file(folder.path("trace.json"));
    file.append("half");
    EXPECT_EQ(files_in(folder.path()), 1U);
    EXPECT_FALSE(std::filesystem::exists(folder.path("trace.json")));
  }

  EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(AtomicFile, KeepsTheOldFileWhenTheDiskIsFull) {
  const test::TemporaryFolder folder;
  write_text_file_atomically(folder.path("deck.toml"), "old");
  const FileSizeLimit limit(100);

  try {
    write_text_file_atomically(folder.path("deck.toml"), std::string(1000, 'x'));
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find(folder.path("deck.toml") + "': File too large"),
              std::string::npos)
        << error.what();
  }

  EXPECT_EQ(text_of(folder.path("deck.toml")), "old");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(AtomicFile, RefusesAPathBelowAFile) {
  const test::TemporaryFolder folder;
  write_text_file_atomically(folder.path("file"), "");

  EXPECT_THROW(write_text_file_atomically(folder.path("file/deck.toml"), "text"), UserError);
}

TEST(MetricsFile, TakesBackALineThatDoesNotFitAndGoesOnLater) {
  const test::TemporaryFolder folder;
  MetricsFile file(folder.path("metrics.jsonl"));
  const std::string line = std::string(59, 'x') + '\n';
  EXPECT_EQ(file.write(line), 0);
  {
    const FileSizeLimit limit(100);
    EXPECT_EQ(file.write(line), EFBIG);
  }

  EXPECT_EQ(file.lost_lines(), 1);
  EXPECT_EQ(text_of(folder.path("metrics.jsonl")), line);
  EXPECT_EQ(file.write(line), 0);
  EXPECT_EQ(text_of(folder.path("metrics.jsonl")), line + line);
}

TEST(MetricsFile, TellsThatItWasRemoved) {
  const test::TemporaryFolder folder;
  MetricsFile file(folder.path("metrics.jsonl"));
  std::filesystem::remove(folder.path("metrics.jsonl"));

  EXPECT_EQ(file.write("line\n"), ENOENT);
  EXPECT_EQ(file.lost_lines(), 1);
}

TEST(PrintLine, DoesNotMindAReaderThatHasGone) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  {
    const RedirectedStdout redirected(ends[1]);
    print_line("a line without a reader");
  }
  close(ends[1]);

  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST(PrintLine, DoesNotMindAClosedStdout) {
  const test::TemporaryFolder folder;
  const int read_only = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY);
  const RedirectedStdout redirected(read_only);
  close(read_only);

  EXPECT_NO_THROW(print_line("this has nowhere to go"));
}

TEST(PrintLine, TellsOfOutputThatIsLost) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  const RedirectedStdout redirected(full);
  close(full);

  EXPECT_THROW(print_line("this does not fit"), UserError);
}

TEST(OpenFiles, AreAllowedAsFarAsTheSystemDoes) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit small{.rlim_cur = 40, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &small);

  const std::int64_t allowed = allow_open_files(60);
  const std::int64_t fewer = allow_open_files(50);
  const auto beyond = static_cast<std::int64_t>(before.rlim_max) + 1;
  const std::int64_t hard = allow_open_files(beyond);

  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(allowed, 60);
  EXPECT_EQ(fewer, 50);
  EXPECT_EQ(hard, beyond - 1);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
}

}  // namespace
}  // namespace flotilla
