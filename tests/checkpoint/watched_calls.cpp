// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/watched_calls.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace flotilla {

namespace {

WatchedCalls* watcher = nullptr;

std::string path_of(int descriptor) {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored).string();
}

}  // namespace

WatchedCalls::WatchedCalls(std::string folder) : folder_(std::move(folder)) {
  while (folder_.back() == '/') folder_.pop_back();
  watcher = this;
}

WatchedCalls::~WatchedCalls() {
  watcher = nullptr;
}

void WatchedCalls::add(const std::string& verb, const std::string& path) {
  const std::string entry = verb + " " + (path == folder_ ? "." : path.substr(folder_.size() + 1));
  if (log.empty() || log.back() != entry) log.push_back(entry);
}

}  // namespace flotilla

extern "C" {

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t position) {
  using flotilla::watcher;
  const auto system_call = [&](const void* from, size_t size) {
    return static_cast<ssize_t>(::syscall(SYS_pwrite64, descriptor, from, size, position));
  };
  const std::string path = flotilla::path_of(descriptor);
  if (watcher == nullptr || !watcher->covers(path)) return system_call(bytes, count);
  watcher->add("write", path);
  if (watcher->room == 0) {
    errno = ENOSPC;
    return -1;
  }
  if (watcher->room > 0) {
    count = std::min(count, static_cast<size_t>(watcher->room));
    watcher->room -= static_cast<std::ptrdiff_t>(count);
  }
  std::vector<char> copy(static_cast<const char*>(bytes), static_cast<const char*>(bytes) + count);
  const auto size = static_cast<std::ptrdiff_t>(count);
  if (watcher->spoilt_byte >= 0 && watcher->spoilt_byte < size)
    copy[static_cast<size_t>(watcher->spoilt_byte)] ^= 1;
  if (watcher->spoilt_byte >= 0) watcher->spoilt_byte -= size;
  return system_call(copy.data(), count);
}

int fsync(int descriptor) {
  using flotilla::watcher;
  const std::string path = flotilla::path_of(descriptor);
  if (watcher != nullptr && watcher->covers(path)) {
    watcher->add("sync", path);
    if (watcher->sync_fails) {
      errno = EIO;
      return -1;
    }
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

int rename(const char* from, const char* to) noexcept {
  using flotilla::watcher;
  if (watcher != nullptr && watcher->covers(from)) {
    watcher->add(std::string("rename ") + std::filesystem::path(from).filename().string(), to);
    if (watcher->rename_fails) {
      errno = EIO;
      return -1;
    }
  }
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}
