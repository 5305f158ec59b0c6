// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/support/launched_rank.hpp"

// Loaded into a program before it starts, kills it (SIGKILL) in one of its calls on files below checkpoints/:
// FLOTILLA_TEST_DIE_AT="0 rename 2" is rank 0, just before its second rename; a write is done by half. The
// calls on files that hosts keep in memory are "memory-write", "memory-rename" and so on. With
// FLOTILLA_TEST_SLOW_WRITES="200" it is not killed, but each of its writes there takes so many milliseconds.
// FLOTILLA_TEST_SLOW_READS="1 500": rank 1 takes this long for each read of 4 KiB or more of a file in a
// folder named "slow".

namespace {

struct Plan {
  std::string call;
  int count = 0;  ///< 0: never
};

Plan read_plan() {
  const char* text = std::getenv("FLOTILLA_TEST_DIE_AT");
  const char* rank = flotilla::test::launched_rank();
  if (text == nullptr || rank == nullptr) return {};
  int where = -1;
  int count = 0;
  std::array<char, 16> call{};
  if (std::sscanf(text, "%d %15s %d", &where, call.data(), &count) != 3 || where != std::atoi(rank))
    return {};
  return {call.data(), count};
}

bool is_of_checkpoints(std::string_view path) {
  return path.find("/checkpoints") != std::string_view::npos;
}

std::string path_of(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

bool is_of_checkpoints(int descriptor) {
  return is_of_checkpoints(path_of(descriptor));
}

/// Delay of each read of this rank in ms; 0: none.
int read_slowness() {
  const char* text = std::getenv("FLOTILLA_TEST_SLOW_READS");
  const char* rank = flotilla::test::launched_rank();
  int where = -1;
  int milliseconds = 0;
  if (text == nullptr || rank == nullptr || std::sscanf(text, "%d %d", &where, &milliseconds) != 2) return 0;
  return where == std::atoi(rank) ? milliseconds : 0;
}

bool is_the_last(std::string_view path, const std::string& call) {
  static const Plan plan = read_plan();
  static std::atomic<int> calls{0};
  if (plan.count == 0) return false;
  const bool is_meant = (is_of_checkpoints(path) && plan.call == call) ||
                        (path.starts_with("/dev/shm/flotilla-") && plan.call == "memory-" + call);
  return is_meant && ++calls == plan.count;
}

void take(int milliseconds) {
  if (milliseconds > 0) usleep(static_cast<useconds_t>(milliseconds) * 1000);
}

void take_time_to_write() {
  static const char* text = std::getenv("FLOTILLA_TEST_SLOW_WRITES");
  static const int milliseconds = text == nullptr ? 0 : std::atoi(text);
  take(milliseconds);
}

void die() {
  kill(getpid(), SIGKILL);
  pause();
}

}  // namespace

extern "C" {

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t position) {
  if (is_the_last(path_of(descriptor), "write")) {
    syscall(SYS_pwrite64, descriptor, bytes, count / 2, position);
    die();
  }
  if (is_of_checkpoints(descriptor)) take_time_to_write();
  return static_cast<ssize_t>(syscall(SYS_pwrite64, descriptor, bytes, count, position));
}

ssize_t pread(int descriptor, void* bytes, size_t count, off_t position) {
  static const int milliseconds = read_slowness();
  if (milliseconds > 0 && count >= 4096 && path_of(descriptor).find("/slow/") != std::string::npos)
    take(milliseconds);
  return static_cast<ssize_t>(syscall(SYS_pread64, descriptor, bytes, count, position));
}

int fsync(int descriptor) {
  if (is_the_last(path_of(descriptor), "sync")) die();
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

int rename(const char* from, const char* to) noexcept {
  if (is_the_last(to, "rename")) die();
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  if (is_the_last(path, "remove")) die();
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

}  // extern "C"
