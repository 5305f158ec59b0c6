// SPDX-License-Identifier: Apache-2.0
#include "src/data/staging/stage_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/run_on_threads.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/checksum.hpp"
#include "src/files/file.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

namespace {

constexpr time_t settled_s = 5;
constexpr std::size_t copied_at_once_bytes = std::size_t{1} << 20;

const char* another_disk(int /*error*/) {
  return "set data.stage_to to a disk with room that can be written on every host";
}

/// A copy in progress. It is locked until it has its name, so that other processes leave it alone: before
/// that it gets the time of the original, and may look stale.
class UnfinishedCopy {
 public:
  UnfinishedCopy(const std::string& folder, const std::string& becomes)
      : copy_(becomes, cat(folder, "/", unique_name()), another_disk), lock_(File::open(copy_.temporary())) {
    flock(lock_.descriptor(), LOCK_EX | LOCK_NB);  // without locks, stale copies are merely kept longer
  }

  void write(std::span<const std::byte> bytes) { copy_.file().append(bytes); }

  /// The checksum of what is on the disk: the system's cached pages are dropped first.
  std::uint64_t checksum_on_disk() {
    constexpr unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    // Some file systems do not support it; then the whole file is synchronised.
    if (sync_file_range(descriptor(), 0, 0, all) != 0 && fdatasync(descriptor()) != 0)
      fail_to_write(copy_.path(), errno, another_disk);
    posix_fadvise(descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    return checksum_of_copy(copy_.temporary());
  }

  /// Does not sync the folder: what a crash of the machine undoes is copied again.
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
  File lock_;  // in addition to copy_'s own, which is closed before the copy gets its name
};

/// Calls `visit` for the pieces of a file; returns its checksum.
template <class Visit>
std::uint64_t read_pieces(const File& file, const Visit& visit) {
  thread_local std::vector<std::byte> buffer(copied_at_once_bytes);
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

namespace {

namespace fs = std::filesystem;

constexpr const char* manifest_name = "/.manifest";
constexpr const char* unfinished_folder = "/.unfinished";

[[noreturn]] void fail_to_make(const std::string& folder, const std::string& reason) {
  throw UserError(cat(folder, ": this folder cannot be made: ", reason,
                      "; set data.stage_to to a folder that can be written on every host"));
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_to_make(folder.string(), error.message());
}

/// Makes a folder that no other user may read or write, unless it is there: another user could have put
/// copies of other data into it, or links that lead elsewhere.
void make_private_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return;
  if (errno != EEXIST) fail_to_make(folder, system_message(errno));
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0)
    throw UserError(
        cat(folder, ": cannot be examined: ", system_message(errno), "; set data.stage_to to another"));
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw UserError(cat(folder,
                        ": is a link, belongs to another user, or others may write in it: remove it, or set "
                        "data.stage_to to a folder of your own"));
}

bool is_copied(const StagedFile& file, const std::string& copy) {
  struct stat status {};
  return ::stat(copy.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == file.bytes &&
         std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec == file.changed_ns;
}

void check_room(const std::string& folder, std::int64_t needed) {
  const std::optional<std::int64_t> free = free_bytes(folder);
  if (free && needed > *free)
    throw UserError(cat("data.stage_to = ", folder, ": the copies need ", bytes_text(needed),
                        " more and the disk has ", bytes_text(*free),
                        " free: name a disk with more room, remove old copies (", folder,
                        "/flotilla-*), or "
                        "leave data.stage_to out"));
}

/// The checksums of what lies below a folder, by path, as a file in it that is written last.
class Manifest {
 public:
  explicit Manifest(std::string path) : path_(std::move(path)) {
    std::error_code error;
    if (!fs::exists(path_, error)) return;
    const std::string text = open_data_file(path_).text();
    for (std::size_t at = 0; at + 17 < text.size();) {
      const std::size_t end = std::min(text.find('\0', at), text.size());
      if (const auto sum = from_hexadecimal(text.substr(at, 16)); sum && end > at + 17)
        known_[text.substr(at + 17, end - at - 17)] = *sum;
      at = end + 1;
    }
  }
  /// The recorded checksum of a file; null if there is none.
  const std::uint64_t* find(const std::string& path) const {
    const auto found = known_.find(path);
    return found == known_.end() ? nullptr : &found->second;
  }
  void write(const std::vector<StagedFile>& files, const std::vector<std::uint64_t>& sums) const {
    std::string text;  // no path holds a zero
    for (std::size_t i = 0; i < files.size(); ++i)
      ((text += hexadecimal(sums[i]) + ' ') += files[i].path) += '\0';
    write_text_file_atomically(path_, text);
  }

 private:
  std::string path_;
  std::map<std::string, std::uint64_t> known_;
};

}  // namespace

Staging stage_files(const StagePlan& plan, const std::string& folder, const StagingOptions& options) {
  const std::string below = folder + "/" + plan.name();
  const std::string unfinished = below + unfinished_folder;
  make_folder(folder);
  make_private_folder(below);
  make_folder(unfinished);
  remove_stale_copies(unfinished);
  const Manifest manifest(below + manifest_name);
  std::set<std::string> parents;
  std::vector<char> missing(plan.files.size(), 0);
  std::int64_t needed = 0;
  for (const std::string& wanted : plan.folders) parents.insert(below + wanted);
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    const StagedFile& file = plan.files[i];
    if (is_copied(file, below + file.path)) continue;
    missing[i] = 1;
    needed += file.bytes;
    parents.insert(fs::path(below + file.path).parent_path().string());
  }
  check_room(folder, needed);
  for (const std::string& parent : parents) make_folder(parent);

  std::vector<std::uint64_t> sums(plan.files.size());
  std::atomic<std::int64_t> copied{0};
  const auto report = [&] {
    if (options.progress) options.progress(copied, needed);
  };
  run_on_threads(
      plan.files.size(), options.threads,
      [&](std::size_t i) {
        const StagedFile& file = plan.files[i];
        const std::string copy = below + file.path;
        if (missing[i] != 0) {
          sums[i] = copy_and_verify(file, copy, unfinished, copied);
        } else {
          const std::uint64_t* const known = manifest.find(file.path);
          sums[i] = known != nullptr ? *known : checksum_of_copy(copy);
        }
      },
      report);
  manifest.write(plan.files, sums);
  return {.copied_files = std::ranges::count(missing, char{1}),
          .copied_bytes = needed,
          .checksum = checksum_of(std::as_bytes(std::span(sums)))};
}

}  // namespace flotilla
