// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <string_view>

#include "tests/faults/fail_at_call.hpp"

// The calls on files among those that fail_at_call.cpp lets fail.

namespace {

using flotilla::test::error_of_failure;
using flotilla::test::fails;
using flotilla::test::next;

bool is_of_system(std::string_view path) {
  return path.starts_with("/proc") || path.starts_with("/sys") || path.starts_with("/dev/null");
}

bool path_fails(const char* word, const void* caller, const char* path) {
  if (is_of_system(path) || !fails(word, caller, path)) return false;
  errno = error_of_failure() == 0 ? EIO : error_of_failure();
  return true;
}

/// Calls on files only: pipes and terminals are left alone.
bool file_fails(const char* word, const void* caller, int descriptor) {
  struct stat status {};
  if (syscall(SYS_fstat, descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  std::array<char, 64> link{};
  std::array<char, 400> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link.data(), path.data(), path.size() - 1);
  if (length < 0 || is_of_system(path.data()) || !fails(word, caller, path.data())) return false;
  errno = error_of_failure();
  return true;
}

/// @returns how many of `count` bytes the call may transfer; −1: it fails
ssize_t transferable(const char* word, const void* caller, int descriptor, std::size_t count) {
  if (!file_fails(word, caller, descriptor)) return static_cast<ssize_t>(count);
  return errno == 0 ? static_cast<ssize_t>((count + 1) / 2) : -1;
}

/// Whether a call that transfers no bytes is to fail.
bool call_fails(const char* word, const void* caller, int descriptor) {
  if (!file_fails(word, caller, descriptor)) return false;
  if (errno == 0) errno = EIO;
  return true;
}

int open_at(int folder, const char* path, int flags, mode_t mode, const void* caller) {
  if (path_fails("open", caller, path)) return -1;
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode, __builtin_return_address(0));
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode, __builtin_return_address(0));
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(folder, path, flags, mode, __builtin_return_address(0));
}

FILE* fopen(const char* path, const char* mode) {
  static const auto real = next<decltype(&fopen)>("fopen");
  return path_fails("open", __builtin_return_address(0), path) ? nullptr : real(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  static const auto real = next<decltype(&fopen)>("fopen64");
  return path_fails("open", __builtin_return_address(0), path) ? nullptr : real(path, mode);
}

DIR* opendir(const char* path) {
  static const auto real = next<decltype(&opendir)>("opendir");
  return path_fails("list", __builtin_return_address(0), path) ? nullptr : real(path);
}

int stat(const char* path, struct stat* to) noexcept {
  if (path_fails("stat", __builtin_return_address(0), path)) return -1;
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, to, 0));
}

int lstat(const char* path, struct stat* to) noexcept {
  if (path_fails("stat", __builtin_return_address(0), path)) return -1;
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW));
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (path_fails("make", __builtin_return_address(0), path)) return -1;
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int rename(const char* from, const char* to) noexcept {
  if (path_fails("rename", __builtin_return_address(0), to)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int unlink(const char* path) noexcept {
  if (path_fails("remove", __builtin_return_address(0), path)) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (path_fails("remove", __builtin_return_address(0), path)) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}

int remove(const char* path) noexcept {
  static const auto real = next<int (*)(const char*)>("remove");
  return path_fails("remove", __builtin_return_address(0), path) ? -1 : real(path);
}

ssize_t write(int file, const void* bytes, size_t count) {
  const ssize_t possible = transferable("write", __builtin_return_address(0), file, count);
  return possible < 0 ? -1 : syscall(SYS_write, file, bytes, possible);
}

ssize_t writev(int file, const iovec* parts, int count) {
  const std::size_t first = count > 0 ? parts[0].iov_len : 0;
  const ssize_t possible = transferable("write", __builtin_return_address(0), file, first);
  if (possible < 0) return -1;
  if (static_cast<std::size_t>(possible) < first)
    return syscall(SYS_write, file, parts[0].iov_base, possible);
  return syscall(SYS_writev, file, parts, count);
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t position) {
  const ssize_t possible = transferable("write", __builtin_return_address(0), file, count);
  return possible < 0 ? -1 : syscall(SYS_pwrite64, file, bytes, possible, position);
}

ssize_t read(int file, void* bytes, size_t count) {
  const ssize_t possible = transferable("read", __builtin_return_address(0), file, count);
  return possible < 0 ? -1 : syscall(SYS_read, file, bytes, possible);
}

ssize_t pread(int file, void* bytes, size_t count, off_t position) {
  const ssize_t possible = transferable("read", __builtin_return_address(0), file, count);
  return possible < 0 ? -1 : syscall(SYS_pread64, file, bytes, possible, position);
}

int fsync(int file) {
  if (call_fails("sync", __builtin_return_address(0), file)) return -1;
  return static_cast<int>(syscall(SYS_fsync, file));
}

int ftruncate(int file, off_t length) noexcept {
  if (call_fails("room", __builtin_return_address(0), file)) return -1;
  return static_cast<int>(syscall(SYS_ftruncate, file, length));
}

}  // extern "C"
