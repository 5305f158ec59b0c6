// SPDX-License-Identifier: Apache-2.0
#include "src/files/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// What to do about a file that cannot be opened, by errno.
const char* remedy(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return "check the path (paths in a deck are relative to the deck, in a list to its root)";
    case EACCES:
    case EPERM: return "give yourself the right to read it (chmod, or the group it belongs to)";
    case EMFILE:
    case ENFILE: return "raise the limit of open files (ulimit -n)";
    default: return "check that it can be read on this host";
  }
}

/// Saves an eighth of the time of small reads. Only the owner may; for others it stays as it is.
void skip_access_times(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0) ::fcntl(descriptor, F_SETFL, flags | O_NOATIME);
}

int make_nameless(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  // Not every file system has O_TMPFILE (NFS has not).
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return descriptor;
  std::string path = folder + "/flotilla-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

File::File(int descriptor, std::string name, std::int64_t size)
    : descriptor_(descriptor), name_(std::move(name)), size_(size) {}

File File::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for somebody to write.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    throw UserError(cat(path, ": cannot be opened: ", std::strerror(error), "; ", remedy(error)));
  }
  File file(descriptor, path, 0);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    throw UserError(cat(path, ": cannot be examined: ", std::strerror(errno), "; ", remedy(errno)));
  }
  if (S_ISDIR(status.st_mode)) throw UserError(cat(path, ": is a folder; name a file in it"));
  if (!S_ISREG(status.st_mode)) {
    throw UserError(cat(path, ": is not a regular file; samples are read in any order, so save it as one"));
  }
  file.size_ = status.st_size;
  skip_access_times(descriptor);
  return file;
}

File File::temporary(const std::string& folder, const std::string& purpose) {
  const int descriptor = make_nameless(folder);
  if (descriptor < 0) {
    throw UserError(cat(folder, ": ", purpose, " cannot be made in this folder: ", std::strerror(errno),
                        "; set TMPDIR to a folder that you can write to"));
  }
  skip_access_times(descriptor);
  return {descriptor, cat(purpose, " in ", folder), 0};
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), name_(std::move(other.name_)), size_(other.size_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  std::swap(size_, other.size_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::size_t File::read_some(std::int64_t begin, std::span<std::uint8_t> to) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const std::int64_t at = begin + static_cast<std::int64_t>(done);
    const ssize_t got = ::pread(descriptor_, to.data() + done, to.size() - done, at);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw UserError(cat(name_, ": reading at byte ", at, " failed: ", std::strerror(errno),
                          "; check the disk or the network file system that it lies on"));
    }
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void File::read(std::int64_t begin, std::span<std::uint8_t> to) const {
  const std::size_t got = read_some(begin, to);
  if (got == to.size()) return;
  throw UserError(cat(name_, ": ends at byte ", begin + static_cast<std::int64_t>(got), ", but had ", size_,
                      " bytes when it was opened; do not change data during a run"));
}

void File::reserve(std::int64_t bytes) {
  if (bytes <= 0 || ::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) return;
  const int error = errno;  // another one: this file system cannot keep room
  if (error != ENOSPC && error != EDQUOT && error != EFBIG) return;
  struct statvfs disk {};
  const bool known = ::fstatvfs(descriptor_, &disk) == 0;
  const auto free = static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
  throw UserError(cat(name_, ": needs ", bytes, " bytes", known ? cat(", ", free, " are free there") : "",
                      ": ", std::strerror(error),
                      "; set TMPDIR to a folder with more space (each rank of a host makes "
                      "a copy of its own), or gunzip the file once"));
}

void File::append(std::span<const std::uint8_t> from) {
  while (!from.empty()) {
    const ssize_t written = ::pwrite(descriptor_, from.data(), from.size(), size_);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      throw UserError(cat(name_, ": writing failed after ", size_, " bytes: ", std::strerror(errno),
                          "; set TMPDIR to a folder with more space, or gunzip the file once"));
    }
    size_ += written;
    from = from.subspan(static_cast<std::size_t>(written));
  }
}

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

}  // namespace flotilla
