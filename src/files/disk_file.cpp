// SPDX-License-Identifier: Apache-2.0
#include "src/files/disk_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

UserError failure(const char* action, const std::string& path, int reason) {
  return UserError(cat("cannot ", action, " '", path, "': ", std::strerror(reason)));
}

/// Why a file cannot be opened: another thing has its name, none has, or nothing is known.
[[noreturn]] void fail_to_open(const std::string& path, int reason) {
  if (reason == ENOENT || reason == ENOTDIR || reason == EISDIR) throw failure("open", path, reason);
  throw UnreadableFile(path, std::strerror(reason));
}

}  // namespace

UnreadableFile::UnreadableFile(const std::string& path, const std::string& reason)
    : UserError(cat("cannot read '", path, "': ", reason)) {}

DiskFile::DiskFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

DiskFile::DiskFile(DiskFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

DiskFile::~DiskFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DiskFile DiskFile::open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_to_open(path, errno);
  DiskFile file(descriptor, path);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw UnreadableFile(path, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw failure("read", path, EISDIR);
  return file;
}

DiskFile DiskFile::create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) throw failure("create", path, errno);
  return {descriptor, path};
}

DiskFile DiskFile::in_memory(const std::string& purpose) {
  const int descriptor = ::memfd_create(purpose.c_str(), MFD_CLOEXEC);
  if (descriptor < 0) throw LibraryError("memfd_create", std::strerror(errno));
  return {descriptor, cat("a file in memory (", purpose, ")")};
}

std::int64_t DiskFile::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) throw UnreadableFile(path_, std::strerror(errno));
  return status.st_size;
}

void DiskFile::read(std::int64_t position, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), position);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw UnreadableFile(path_, std::strerror(errno));
    if (count == 0) throw UserError(cat("cannot read '", path_, "': it ends too early"));
    to = to.subspan(static_cast<std::size_t>(count));
    position += count;
  }
}

void DiskFile::write(std::int64_t position, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t count = ::pwrite(descriptor_, from.data(), from.size(), position);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw failure("write", path_, errno);
    from = from.subspan(static_cast<std::size_t>(count));
    position += count;
  }
}

void DiskFile::push_out(std::int64_t position, std::int64_t bytes) {
  // What fails here fails again in sync().
  ::sync_file_range(descriptor_, position, bytes,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

void DiskFile::sync() {
  if (::fsync(descriptor_) != 0) throw failure("write", path_, errno);
}

void DiskFile::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0) throw failure("write", path_, errno);
}

void DiskFile::replace(int descriptor) const {
  if (::dup3(descriptor_, descriptor, O_CLOEXEC) < 0) throw LibraryError("dup3", std::strerror(errno));
}

void sync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) throw failure("open", folder, errno);
  const int result = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  // Some network file systems can't sync a folder and say so; there is nothing more to do there.
  if (result != 0 && reason != EINVAL && reason != ENOTSUP) throw failure("write", folder, reason);
}

void rename_file(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) throw failure("write", to, errno);
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace flotilla
