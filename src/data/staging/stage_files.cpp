// SPDX-License-Identifier: Apache-2.0
#include "src/data/staging/stage_files.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/data_file.hpp"
#include "src/data/run_on_threads.hpp"
#include "src/data/staging/staged_copy.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/checksum.hpp"
#include "src/files/file_error.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

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
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0)
    throw UserError(cat("data.stage_to = ", folder, ": cannot be examined: ", system_message(errno)));
  const auto free = static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
  if (needed > free)
    throw UserError(cat("data.stage_to = ", folder, ": the copies need ", bytes_text(needed),
                        " more and the disk has ", bytes_text(free),
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
  /// Null if it does not say.
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
