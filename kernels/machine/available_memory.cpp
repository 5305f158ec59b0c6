// SPDX-License-Identifier: Apache-2.0
#include "kernels/machine/available_memory.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "kernels/error.hpp"
#include "kernels/machine/control_groups.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

/// The number after `name` in a file of lines "name number …", or `otherwise`.
std::int64_t number_in(const std::string& path, std::string_view name, std::int64_t otherwise) {
  std::ifstream file(path);
  std::string found;
  std::int64_t number = 0;
  for (std::string rest; file >> found >> number; std::getline(file, rest)) {
    if (found == name) return number;
  }
  return otherwise;
}

/// The number that a file holds; "max" (version 2) and a missing file are `otherwise`.
std::int64_t number_of(const std::string& path, std::int64_t otherwise) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? number : otherwise;
}

/// @returns `unlimited` where the group has no limit
std::int64_t limit_of(const ControlGroup& group) {
  return number_of(group.folder + (group.version == 1 ? "/memory.limit_in_bytes" : "/memory.max"), unlimited);
}

/// Bytes used by a group and those below it, without the named kinds of file cache, which can be dropped.
std::int64_t used_by(const ControlGroup& group, std::initializer_list<const char*> cache) {
  const bool version_1 = group.version == 1;
  const auto path = [&](const char* file) { return group.folder + file; };
  std::int64_t used = number_of(path(version_1 ? "/memory.usage_in_bytes" : "/memory.current"), 0);
  for (const char* const kind : cache)
    used -= number_in(path("/memory.stat"), version_1 ? cat("total_", kind) : kind, 0);
  return std::max<std::int64_t>(0, used);
}

/// Bytes left below the limit of a group.
std::int64_t left_by(const ControlGroup& group) {
  const std::int64_t limit = limit_of(group);
  if (limit == unlimited) return unlimited;
  return std::max<std::int64_t>(0, limit - used_by(group, {"inactive_file"}));
}

/// Device and inode of a control group's folder: containers may call different groups by one name.
std::string identity_of(const std::string& folder) {
  struct stat found {};
  return ::stat(folder.c_str(), &found) == 0 ? cat(found.st_dev, ":", found.st_ino) : "";
}

std::string mebibytes(std::int64_t bytes) {
  return cat(bytes >> 20, " MiB");
}

}  // namespace

std::int64_t available_memory_bytes(const std::string& root) {
  const std::int64_t kibibytes = number_in(root + "/proc/meminfo", "MemAvailable:", unlimited / 1024);
  std::int64_t available = kibibytes * 1024;
  for (const ControlGroup& group : control_groups(root, "memory"))
    available = std::min(available, left_by(group));
  return available;
}

MemoryLimit memory_limit(const std::string& root) {
  const auto kibibytes = [&](const char* name, std::int64_t otherwise) {
    return number_in(root + "/proc/meminfo", name, otherwise / 1024) * 1024;
  };
  const std::int64_t swap = kibibytes("SwapTotal:", 0);
  MemoryLimit tightest;
  tightest.bytes = kibibytes("MemTotal:", unlimited / 2) + swap;
  tightest.left = tightest.bytes;
  for (const ControlGroup& group : control_groups(root, "memory")) {
    const std::int64_t limit = limit_of(group);
    if (limit >= tightest.bytes) continue;
    const std::int64_t left = limit + swap - used_by(group, {"inactive_file", "active_file"});
    if (left < tightest.left) tightest = {group.folder, identity_of(group.folder), limit + swap, left};
  }
  tightest.left = std::max<std::int64_t>(0, tightest.left);
  return tightest;
}

std::string MemoryLimit::text() const {
  if (group.empty()) return cat("this machine, which has ", mebibytes(bytes));
  return cat("the control group ", group, ", which allows ", mebibytes(bytes), " and leaves ",
             mebibytes(left));
}

void require_memory(const MemoryLimit& limit, std::int64_t bytes, const std::string& what) {
  if (bytes <= limit.left) return;
  throw UserError(cat("out of memory: ", what, " take ", mebibytes(bytes), " more, and do not fit into ",
                      limit.text(),
                      "; ask for more memory (sbatch --mem), start fewer ranks on a host, or "
                      "take a smaller model or batch"));
}

std::optional<std::int64_t> free_bytes(const std::string& path) {
  struct statvfs disk {};
  if (::statvfs(path.c_str(), &disk) != 0 || disk.f_blocks == 0) return std::nullopt;
  const auto blocks = ::geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  return static_cast<std::int64_t>(blocks) * static_cast<std::int64_t>(disk.f_frsize);
}

}  // namespace flotilla
