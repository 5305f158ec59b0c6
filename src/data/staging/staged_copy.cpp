// SPDX-License-Identifier: Apache-2.0
#include "src/data/staging/staged_copy.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

namespace {

constexpr time_t settled_s = 5;
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

const char* another_disk(int /*error*/) {
  return "set data.stage_to to a disk with room that can be written on every host";
}

/// A copy that is written. Locked until it has its name, so that other processes see that it is: it gets the
/// time of the original, which may be old, before its name.
class UnfinishedCopy {
 public:
  UnfinishedCopy(const std::string& folder, const std::string& becomes)
      : copy_(becomes, cat(folder, "/", unique_name()), another_disk), lock_(File::open(copy_.temporary())) {
    flock(lock_.descriptor(), LOCK_EX | LOCK_NB);  // a file system without locks only keeps more rubbish
  }

  void write(std::span<const std::byte> bytes) { copy_.file().append(bytes); }

  /// As the disk has it: what the system keeps of it in memory is dropped before.
  std::uint64_t checksum_on_disk() {
    constexpr unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    // Not every file system can; then all of the file is synchronised.
    if (sync_file_range(descriptor(), 0, 0, all) != 0 && fdatasync(descriptor()) != 0)
      fail_to_write(copy_.path(), errno, another_disk);
    posix_fadvise(descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    return checksum_of_copy(copy_.temporary());
  }

  /// Without a sync of its folder: what a crash of the machine undoes is copied again.
  void finish(std::int64_t changed_ns) {
    const timespec when{.tv_sec = changed_ns / 1'000'000'000, .tv_nsec = changed_ns % 1'000'000'000};
    const std::array<timespec, 2> times{when, when};
    if (futimens(descriptor(), times.data()) != 0) fail_to_write(copy_.path(), errno, another_disk);
    copy_.file().close();
    copy_.give_name();
  }

 private:
  int descriptor() { return copy_.file().descriptor(); }
  static std::string unique_name() {
    static std::atomic<int> count{0};
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    return cat(getpid(), "-", now, "-", count++);
  }

  AtomicFile copy_;
  File lock_;  // beside copy_'s own, which is closed before the copy gets its name
};

/// Calls `visit` for the pieces of a file; returns its checksum.
template <class Visit>
std::uint64_t read_pieces(const File& file, const Visit& visit) {
  thread_local std::vector<std::byte> buffer(piece_bytes);
  Checksum checksum;
  std::int64_t at = 0;
  for (std::size_t got = file.read_some(at, buffer); got > 0; got = file.read_some(at, buffer)) {
    const std::span<const std::byte> piece = std::span(buffer).first(got);
    checksum.add(piece);
    visit(piece);
    at += static_cast<std::int64_t>(got);
  }
  return checksum.value();
}

std::uint64_t copy_file(const StagedFile& file, const std::string& copy, const std::string& unfinished,
                        std::atomic<std::int64_t>& copied) {
  UnfinishedCopy target(unfinished, copy);
  std::int64_t bytes = 0;
  const std::uint64_t sum = read_pieces(open_data_file(file.path), [&](std::span<const std::byte> piece) {
    target.write(piece);
    bytes += std::ssize(piece);
    copied += std::ssize(piece);
  });
  if (bytes != file.bytes)
    throw UserError(cat(file.path, ": had ", file.bytes, " bytes when staging began, and has ", bytes,
                        " now; start again when it is complete"));
  if (target.checksum_on_disk() != sum)
    throw UserError(cat(copy,
                        ": the copy that the disk returns is not what was written; this disk cannot be "
                        "trusted: set data.stage_to to another one"));
  target.finish(file.changed_ns);
  return sum;
}

}  // namespace

std::uint64_t copy_and_verify(const StagedFile& file, const std::string& copy, const std::string& unfinished,
                              std::atomic<std::int64_t>& copied) {
  try {
    return copy_file(file, copy, unfinished, copied);
  } catch (const UserError& error) {
    throw UserError(config::printable(error.what()));
  }
}

std::uint64_t checksum_of_copy(const std::string& path) {
  return read_pieces(open_data_file(path), [](std::span<const std::byte>) {});
}

void remove_stale_copies(const std::string& unfinished) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(unfinished, error), end; !error && at != end;
       at.increment(error)) {
    const int descriptor = open(at->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) continue;
    struct stat status {};
    // A new one may be about to be locked.
    const bool old = fstat(descriptor, &status) == 0 && status.st_mtim.tv_sec + settled_s < time(nullptr);
    if (old && flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(at->path().c_str());
    close(descriptor);
  }
}

}  // namespace flotilla
