// SPDX-License-Identifier: Apache-2.0
#include "src/files/file.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <utility>

#include "kernels/machine/available_memory.hpp"

namespace flotilla {

namespace {

std::string reason(int error, Remedy remedy) {
  return remedy == nullptr ? system_message(error) : cat(system_message(error), "; ", remedy(error));
}

}  // namespace

UnreadableFile::UnreadableFile(const std::string& name, const std::string& reason)
    : UserError(cat("cannot read '", name, "': ", reason)) {}

std::string system_message(int error) {
  return std::generic_category().message(error);
}

void fail_to_read(const std::string& name, int error, Remedy remedy) {
  if (error == ENOENT || error == ENOTDIR || error == EISDIR)
    throw UserError(cat("cannot open '", name, "': ", reason(error, remedy)));
  throw UnreadableFile(name, reason(error, remedy));
}

void fail_to_write(const std::string& name, int error, Remedy remedy, const char* action) {
  throw UserError(cat("cannot ", action, " '", name, "': ", reason(error, remedy)));
}

namespace {

/// The limit for files read into memory as a whole: lists of some ten million images.
constexpr std::int64_t max_text = std::int64_t{1} << 32;

const char* more_room(int /*error*/) {
  return "set TMPDIR to a folder with more space, or decompress the file once";
}

/// Saves an eighth of the time of small reads. Only the owner may; for others it stays as it is.
void skip_access_times(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0) ::fcntl(descriptor, F_SETFL, flags | O_NOATIME);
}

int make_nameless(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  // Not every file system supports O_TMPFILE (NFS does not).
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return descriptor;
  std::string path = folder + "/flotilla-XXXXXX";
  const int named = ::mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(path.c_str());
  return named;
}

}  // namespace

File::File(int descriptor, std::string name, Remedy remedy)
    : descriptor_(descriptor), name_(std::move(name)), remedy_(remedy) {}

File File::open(const std::string& path, Remedy remedy) {
  // O_NONBLOCK: to open a FIFO must not wait for a process that writes.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail_to_read(path, errno, remedy);
  File file(descriptor, path, remedy);
  const struct stat status = file.status();
  if (S_ISDIR(status.st_mode)) fail_to_read(path, EISDIR, remedy);
  if (!S_ISREG(status.st_mode))
    throw UserError(cat("cannot read '", path,
                        "': it is not a regular file; it is read in any order, so save it as one"));
  file.size_ = status.st_size;
  skip_access_times(descriptor);
  return file;
}

File File::create(const std::string& path, std::string name, Remedy remedy) {
  if (name.empty()) name = path;
  const auto make = [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); };
  int descriptor = make();
  // Left by a process that was killed, or a link that another user made: neither is written into.
  if (descriptor < 0 && errno == EEXIST && ::unlink(path.c_str()) == 0) descriptor = make();
  if (descriptor < 0) fail_to_write(name, errno, remedy, "create");
  return {descriptor, std::move(name), remedy};
}

File File::temporary(const std::string& folder, const std::string& purpose) {
  const int descriptor = make_nameless(folder);
  if (descriptor < 0)
    throw UserError(cat(folder, ": ", purpose, " cannot be made in this folder: ", system_message(errno),
                        "; set TMPDIR to a folder that you can write to"));
  skip_access_times(descriptor);
  return {descriptor, cat(purpose, " in ", folder), more_room};
}

File File::in_memory(const std::string& purpose) {
  const int descriptor = ::memfd_create(purpose.c_str(), MFD_CLOEXEC);
  if (descriptor < 0) throw LibraryError("memfd_create", system_message(errno));
  return {descriptor, cat("a file in memory (", purpose, ")"), nullptr};
}

std::optional<File> File::of_handle(const std::string& handle, const std::string& name) {
  // O_NONBLOCK: to open a FIFO must not wait for a process that writes.
  const std::string path = handle.substr(0, handle.find(' '));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  File file(descriptor, name, nullptr);
  const struct stat status = file.status();
  if (handle != cat(path, ' ', status.st_dev, ' ', status.st_ino)) return std::nullopt;
  file.size_ = status.st_size;
  skip_access_times(descriptor);
  return file;
}

std::string File::handle() const {
  const struct stat own = status();
  return cat("/proc/", ::getpid(), "/fd/", descriptor_, ' ', own.st_dev, ' ', own.st_ino);
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      name_(std::move(other.name_)),
      remedy_(other.remedy_),
      size_(other.size_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
  std::swap(remedy_, other.remedy_);
  std::swap(size_, other.size_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

struct stat File::status() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_to_read(name_, errno, remedy_);
  return status;
}

std::int64_t allow_open_files(std::int64_t count) {
  const auto wanted = static_cast<rlim_t>(count);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return count;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::int64_t>(limit.rlim_cur);
}

FileStamp stamp_of(const struct stat& status) {
  return {status.st_size, std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

FileStamp File::stamp() const {
  return stamp_of(status());
}

std::int64_t File::size_now() const {
  return status().st_size;
}

std::size_t File::read_some(std::int64_t begin, std::span<std::byte> to) const {
  std::size_t done = 0;
  while (done < to.size()) {
    const std::int64_t at = begin + static_cast<std::int64_t>(done);
    const ssize_t got = ::pread(descriptor_, to.data() + done, to.size() - done, at);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to_read(name_, errno, remedy_);
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void File::read(std::int64_t begin, std::span<std::byte> to) const {
  const std::size_t got = read_some(begin, to);
  if (got == to.size()) return;
  throw UserError(cat("cannot read '", name_, "': it ends at byte ", begin + static_cast<std::int64_t>(got),
                      ", but had ", size_, " bytes when it was opened; do not change it while it is read"));
}

std::string File::text() const {
  if (size_ > max_text)
    throw UserError(cat("cannot read '", name_, "': it has ", size_,
                        " bytes; files that are read into memory as a whole may have ", max_text,
                        " at most: check that it is the right file"));
  std::string text(static_cast<std::size_t>(size_), '\0');
  read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void File::read_ahead(std::int64_t begin, std::int64_t bytes) const {
  // Linux limits one call to the read-ahead of the disk, which is seldom less than this.
  constexpr std::int64_t piece = 131072;
  for (const std::int64_t end = begin + bytes; begin < end; begin += piece)
    ::posix_fadvise(descriptor_, begin, std::min(piece, end - begin), POSIX_FADV_WILLNEED);
}

void File::write(std::int64_t begin, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t written = ::pwrite(descriptor_, from.data(), from.size(), begin);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(name_, errno, remedy_);
    from = from.subspan(static_cast<std::size_t>(written));
    begin += written;
  }
}

void File::append(std::span<const std::byte> from) {
  write(size_, from);
  size_ += std::ssize(from);
}

void File::reserve(std::int64_t bytes) {
  const std::optional<std::int64_t> free = free_bytes(cat("/proc/self/fd/", descriptor_));
  int error = 0;
  // A file system that lacks room may take all it has before it says so.
  if (free && bytes > *free) {
    error = ENOSPC;
  } else if (bytes > 0 && ::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0) {
    error = errno;
  }
  // Any other error: this file system cannot reserve space.
  if (error != ENOSPC && error != EDQUOT && error != EFBIG) return;
  throw UserError(cat(name_, ": needs ", bytes, " bytes", free ? cat(", ", *free, " are free there") : "",
                      ": ", system_message(error),
                      "; set TMPDIR to a folder with more space (each rank of a host makes "
                      "a copy of its own), or decompress the file once"));
}

void File::push_out(std::int64_t begin, std::int64_t bytes) {
  // An error here is reported by sync().
  ::sync_file_range(descriptor_, begin, bytes,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

void File::sync() {
  if (::fsync(descriptor_) != 0) fail_to_write(name_, errno, remedy_);
}

void File::close() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (descriptor >= 0 && ::close(descriptor) != 0) fail_to_write(name_, errno, remedy_);
}

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

namespace {

/// Makes what SIGPIPE would tell visible as EPIPE only, for this thread and this scope.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    if (raised_ && !was_pending_) {
      const timespec now{};
      while (sigtimedwait(&pipe_, nullptr, &now) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  void raised() { raised_ = true; }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
  bool raised_ = false;
};

}  // namespace

int write_fully(int descriptor, std::string_view text) noexcept {
  NoPipeSignal guard;
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      const int error = errno;
      if (error == EPIPE) guard.raised();
      return error;
    }
  }
  return 0;
}

}  // namespace flotilla
