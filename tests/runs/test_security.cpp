// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "kernels/error.hpp"
#include "tests/runs/program.hpp"

// What a run shows to other users of its host: files, memory, sockets (docs/security.md).

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

/// Files that this process and what it starts make have the permissions that `mask` leaves.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;
  ~Umask() { umask(before_); }

 private:
  mode_t before_;
};

/// The permissions of what lies at a path; of a link, of what it leads to.
mode_t permissions(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 0777 : mode_t{01000};
}

/// Two workers and two servers on gzip files, with staged copies and checkpoints every few steps, for long.
Texts training(const TemporaryFolder& folder, const Texts& more) {
  Texts all = {"train",
               source_path("inputs/mlp_parameter_server.toml"),
               "run.output=" + folder.path("run"),
               "run.log_every=5",
               "run.trace=true",
               "data.stage_to=" + folder.path("disk"),
               "device.threads=1",
               "server.mode=sync",
               "checkpoint.every=20"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// A run of four ranks that does not end by itself, and whose temporary files go to a folder of its own.
class LiveRun {
 public:
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;
  LiveRun() {
    fs::create_directory(folder_.path("tmp"));
    program_.emplace(in_environment({"TMPDIR=" + folder_.path("tmp")},
                                    flotilla_command(4, training(folder_, {"train.epochs=100000"}))));
    ranks_ = rank_processes(program_->pid(), 4);
    while (metrics(folder_.path("run"), "checkpoint").empty() && !program_->wait_for(0.02)) continue;
  }
  const std::vector<pid_t>& ranks() const { return ranks_; }
  std::string temporary() const { return folder_.path("tmp"); }
  /// Ends it by its launcher, which removes what MPI made.
  ~LiveRun() {
    if (!program_->wait_for(0.0)) kill(program_->pid(), SIGTERM);
    program_->wait_for(20.0);
  }

 private:
  TemporaryFolder folder_;
  std::optional<Program> program_;
  std::vector<pid_t> ranks_;
};

/// What the open files of a process are: paths, "socket:[4711]" and so on, by their places in /proc.
std::map<std::string, std::string> open_files(pid_t process) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    std::error_code ignored;
    const fs::path to = fs::read_symlink(entry.path(), ignored);
    if (!to.empty()) files[entry.path().string()] = to.string();
  }
  return files;
}

/// The protocols of the sockets on which a process waits for others of the network, one word for each socket.
std::multiset<std::string> listening(pid_t process) {
  std::set<std::string> sockets;
  for (const auto& [place, file] : open_files(process)) sockets.insert(file);
  std::multiset<std::string> found;
  for (const std::string protocol : {"tcp", "tcp6", "udp", "udp6", "raw", "raw6"}) {
    std::ifstream table("/proc/" + std::to_string(process) + "/net/" + protocol);
    std::string line;
    std::getline(table, line);
    while (std::getline(table, line)) {
      std::istringstream words(line);
      Texts fields(10);
      for (std::string& field : fields) words >> field;
      const bool open = !protocol.starts_with("tcp") || fields[3] == "0A";
      if (open && sockets.count("socket:[" + fields[9] + "]") > 0) found.insert(protocol);
    }
  }
  return found;
}

TEST(Security, OfSocketsOnlyThoseOfMpiListen) {
  Program plain({FLOTILLA_MPIEXEC, "-n", "4", PLAIN_MPI_JOB});
  while (count(plain.output(), "\n") < 4) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::istringstream words(plain.output());
  std::string word;
  pid_t process = 0;
  words >> word >> process;
  const std::multiset<std::string> of_mpi = listening(process);
  ASSERT_FALSE(of_mpi.empty()) << "not even MPI listens: this test sees no sockets";

  LiveRun run;
  for (const pid_t rank : run.ranks()) EXPECT_EQ(listening(rank), of_mpi);
}

TEST(Security, TemporaryFilesAndSharedMemoryAreTheUsersAlone) {
  const Umask open(0);
  LiveRun run;

  for (const auto& entry : fs::directory_iterator(run.temporary())) {
    if (entry.path().filename().string().starts_with("prterun.")) continue;  // Open MPI 5's launcher's own
    EXPECT_TRUE(entry.is_directory()) << entry.path() << " has a name that others could have guessed";
    EXPECT_EQ(permissions(entry.path()) & 077, 0U) << entry.path();
  }
  int nameless = 0;
  for (const pid_t rank : run.ranks()) {
    for (const auto& [place, file] : open_files(rank)) {
      if (!file.starts_with(run.temporary()) && !file.starts_with("/dev/shm/")) continue;
      // The state in memory lies in a folder that others cannot enter.
      const std::string folder = fs::path(file).parent_path().string();
      const bool in_memory = folder.starts_with("/dev/shm/flotilla-");
      EXPECT_EQ(permissions(in_memory ? folder : place) & 077, 0U) << file;
      nameless += file.ends_with(" (deleted)") ? 1 : 0;
    }
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(rank) + "/map_files")) {
      std::error_code ignored;
      const std::string file = fs::read_symlink(entry.path(), ignored).string();
      if (!file.starts_with("/dev/shm/")) continue;
      EXPECT_EQ(permissions(entry.path()) & 077, 0U) << file;
    }
  }
  EXPECT_GT(nameless, 0) << "the inflated copies of the data";
}

TEST(Security, FilesOfARunHaveTheUsersUmask) {
  for (const mode_t mask : {mode_t{077}, mode_t{027}}) {
    const TemporaryFolder folder;
    {
      const Umask set(mask);
      const Result result = flotilla(4, training(folder, {"train.steps=40"}));
      ASSERT_EQ(result.exit_code, exit_done) << result.errors;
    }
    int files = 0;
    for (const char* part : {"run", "disk"}) {
      EXPECT_EQ(permissions(folder.path(part)), 0777 & ~mask) << part;
      for (const auto& entry : fs::recursive_directory_iterator(folder.path(part))) {
        const bool holds_copies = entry.path().filename().string().starts_with("flotilla-");
        EXPECT_EQ(permissions(entry.path()), holds_copies           ? 0700
                                             : entry.is_directory() ? 0777 & ~mask
                                                                    : 0666 & ~mask)
            << entry.path();
        ++files;
      }
    }
    EXPECT_GT(files, 8);
  }
}

// A run's folder that comes from other people may hold such links.
TEST(LinksInTheFolderOfARun, LeadNoneOfItsFilesElsewhere) {
  const TemporaryFolder folder;
  const std::string output = folder.path("run");
  fs::create_directories(output + "/log");
  for (const char* name : {".lock", "metrics.jsonl", "deck.toml", "log/rank-0000.log"}) {
    const std::string mine = folder.path("mine-" + fs::path(name).filename().string());
    write_file(mine, "mine");
    fs::create_symlink(mine, output + "/" + name);
  }
  const Texts run = {"train", source_path("inputs/mnist_mlp.toml"), "run.output=" + output, "train.steps=4"};

  expect_told(flotilla(1, run), "cannot write '" + output + "/metrics.jsonl'");
  fs::remove(output + "/metrics.jsonl");
  const Result trained = flotilla(1, run);

  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_NE(trained.errors.find("cannot lock " + output + "/.lock"), std::string::npos) << trained.errors;
  for (const char* name : {".lock", "metrics.jsonl", "deck.toml", "rank-0000.log"})
    EXPECT_EQ(read_file(folder.path("mine-" + std::string(name))), "mine") << name;
}

}  // namespace
}  // namespace flotilla::test
