// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/watched_calls.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <vector>

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
  const std::lock_guard lock(mutex_);
  const std::string entry = verb + " " + (path == folder_ ? "." : path.substr(folder_.size() + 1));
  if (log.empty() || log.back() != entry) log.push_back(entry);
}

int WatchedCalls::fate(const std::string& call, const std::string& path) {
  if (fault) return fault(call, path);
  if ((call == "sync" && sync_fails) || (call == "rename" && rename_fails)) return EIO;
  return call == "write" && room == 0 ? ENOSPC : 0;
}

namespace {

int fail_with(int error) {
  errno = error;
  return -1;
}

}  // namespace

}  // namespace flotilla

extern "C" {

int open(const char* path, int flags, ...) {
  using flotilla::watcher;
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (watcher != nullptr && (flags & O_CREAT) != 0 && watcher->covers(path))
    if (const int fate = watcher->fate("open", path); fate > 0) return flotilla::fail_with(fate);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t position) {
  using flotilla::watcher;
  const auto system_call = [&](const void* from, size_t size) {
    return static_cast<ssize_t>(::syscall(SYS_pwrite64, descriptor, from, size, position));
  };
  const std::string path = flotilla::path_of(descriptor);
  if (watcher == nullptr || !watcher->covers(path)) return system_call(bytes, count);
  watcher->add("write", path);
  const int fate = watcher->fate("write", path);
  if (fate > 0) return flotilla::fail_with(fate);
  if (watcher->room > 0) {
    count = std::min(count, static_cast<size_t>(watcher->room));
    watcher->room -= static_cast<std::ptrdiff_t>(count);
  }
  std::vector<char> copy(static_cast<const char*>(bytes), static_cast<const char*>(bytes) + count);
  const auto size = static_cast<std::ptrdiff_t>(count);
  if (watcher->spoilt_byte >= 0 && watcher->spoilt_byte < size)
    copy[static_cast<size_t>(watcher->spoilt_byte)] ^= 1;
  if (watcher->spoilt_byte >= 0) watcher->spoilt_byte -= size;
  if (fate == flotilla::WatchedCalls::lies) copy.back() ^= 1;
  return system_call(copy.data(), count);
}

ssize_t pread(int descriptor, void* bytes, size_t count, off_t position) {
  using flotilla::watcher;
  if (watcher != nullptr)
    if (const std::string path = flotilla::path_of(descriptor); watcher->covers(path))
      if (const int fate = watcher->fate("read", path); fate > 0) return flotilla::fail_with(fate);
  return static_cast<ssize_t>(::syscall(SYS_pread64, descriptor, bytes, count, position));
}

int fsync(int descriptor) {
  using flotilla::watcher;
  const std::string path = flotilla::path_of(descriptor);
  if (watcher != nullptr && watcher->covers(path)) {
    watcher->add("sync", path);
    const int fate = watcher->fate("sync", path);
    if (fate > 0) return flotilla::fail_with(fate);
    if (watcher->fault) return 0;
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

int sync_file_range(int descriptor, off64_t position, off64_t bytes, unsigned flags) {
  if (flotilla::watcher != nullptr && flotilla::watcher->fault) return 0;
  return static_cast<int>(::syscall(SYS_sync_file_range, descriptor, position, bytes, flags));
}

int rename(const char* from, const char* to) noexcept {
  using flotilla::watcher;
  if (watcher != nullptr && watcher->covers(from)) {
    watcher->add(std::string("rename ") + std::filesystem::path(from).filename().string(), to);
    const int fate = watcher->fate("rename", to);
    if (fate == flotilla::WatchedCalls::lies) return 0;
    if (fate > 0) return flotilla::fail_with(fate);
  }
  return static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  using flotilla::watcher;
  if (watcher != nullptr && watcher->covers(path)) {
    const int fate = watcher->fate("remove", path);
    if (fate == flotilla::WatchedCalls::lies) return 0;
    if (fate > 0) return flotilla::fail_with(fate);
  }
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
}
