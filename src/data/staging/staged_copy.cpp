// SPDX-License-Identifier: Apache-2.0
#include "src/data/staging/staged_copy.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/files/checksum.hpp"
#include "src/files/file.hpp"
#include "src/files/files.hpp"

namespace flotilla {

namespace {

constexpr time_t settled_s = 5;
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

/// A file that is written; it vanishes with this object unless it was renamed. Locked while it is written, so
/// that others see that somebody does.
class UnfinishedCopy {
 public:
  UnfinishedCopy(const std::string& folder, std::string becomes) : becomes_(std::move(becomes)) {
    static std::atomic<int> count{0};
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    path_ = cat(folder, "/", getpid(), "-", now, "-", count++);
    descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("open", errno);
    flock(descriptor_, LOCK_EX | LOCK_NB);  // a file system without locks only keeps more rubbish
  }
  UnfinishedCopy(const UnfinishedCopy&) = delete;
  UnfinishedCopy& operator=(const UnfinishedCopy&) = delete;
  ~UnfinishedCopy() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!path_.empty()) unlink(path_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (const int error = write_fully(descriptor_, text); error != 0) fail("write", error);
  }

  /// As the disk has it: what the system keeps of it in memory is dropped before.
  std::uint64_t checksum_on_disk() {
    constexpr unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    // Not every file system can; then all of the file is synchronised.
    if (sync_file_range(descriptor_, 0, 0, all) != 0 && fdatasync(descriptor_) != 0) fail("fdatasync", errno);
    posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    return checksum_of_copy(path_);
  }

  void finish(std::int64_t changed_ns) {
    const timespec when{.tv_sec = changed_ns / 1'000'000'000, .tv_nsec = changed_ns % 1'000'000'000};
    const std::array<timespec, 2> times{when, when};
    if (futimens(descriptor_, times.data()) != 0) fail("futimens", errno);
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (close(descriptor) != 0) fail("close", errno);
    if (std::rename(path_.c_str(), becomes_.c_str()) != 0) fail("rename", errno);
    path_.clear();
  }

 private:
  [[noreturn]] void fail(const char* call, int error) const {
    throw UserError(cat(config::printable(becomes_), ": cannot be written: ", system_message(error), " (",
                        call, "); set data.stage_to to a disk with room that can be written on every host"));
  }

  std::string becomes_;
  std::string path_;
  int descriptor_ = -1;
};

/// Calls `visit` for the pieces of a file; returns its checksum.
template <class Visit>
std::uint64_t read_pieces(const File& file, const Visit& visit) {
  thread_local std::vector<std::uint8_t> buffer(piece_bytes);
  Checksum checksum;
  std::int64_t at = 0;
  for (std::size_t got = file.read_some(at, buffer); got > 0; got = file.read_some(at, buffer)) {
    const auto piece = std::as_bytes(std::span(buffer).first(got));
    checksum.add(piece);
    visit(piece);
    at += static_cast<std::int64_t>(got);
  }
  return checksum.value();
}

}  // namespace

std::uint64_t copy_and_verify(const StagedFile& file, const std::string& copy, const std::string& unfinished,
                              std::atomic<std::int64_t>& copied) {
  UnfinishedCopy target(unfinished, copy);
  std::int64_t bytes = 0;
  const std::uint64_t sum = read_pieces(File::open(file.path), [&](std::span<const std::byte> piece) {
    target.write(piece);
    bytes += std::ssize(piece);
    copied += std::ssize(piece);
  });
  if (bytes != file.bytes)
    throw UserError(cat(config::printable(file.path), ": had ", file.bytes,
                        " bytes when staging began, and has ", bytes,
                        " now; start again when it is complete"));
  if (target.checksum_on_disk() != sum)
    throw UserError(cat(config::printable(copy),
                        ": the copy that the disk returns is not what was written; this disk "
                        "cannot be trusted: set data.stage_to to another one"));
  target.finish(file.changed_ns);
  return sum;
}

std::uint64_t checksum_of_copy(const std::string& path) {
  return read_pieces(File::open(path), [](std::span<const std::byte>) {});
}

std::string read_small_file(const std::string& path) {
  std::string text;
  read_pieces(File::open(path), [&](std::span<const std::byte> piece) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return text;
}

void remove_copies_of_the_dead(const std::string& unfinished) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(unfinished, error), end; !error && at != end;
       at.increment(error)) {
    const int descriptor = open(at->path().c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) continue;
    struct stat status {};
    // A new one may be about to be locked.
    const bool old = fstat(descriptor, &status) == 0 && status.st_mtim.tv_sec + settled_s < time(nullptr);
    if (old && flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(at->path().c_str());
    close(descriptor);
  }
}

}  // namespace flotilla
