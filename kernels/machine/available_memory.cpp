// SPDX-License-Identifier: Apache-2.0
#include "kernels/machine/available_memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

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

/// What a group leaves of its limit. File cache of the group and those below it can be dropped.
std::int64_t left_by(const ControlGroup& group) {
  const bool version_1 = group.version == 1;
  const auto path = [&](const char* file) { return group.folder + file; };
  const std::int64_t limit = number_of(path(version_1 ? "/memory.limit_in_bytes" : "/memory.max"), unlimited);
  if (limit == unlimited) return unlimited;
  const std::int64_t used =
      number_of(path(version_1 ? "/memory.usage_in_bytes" : "/memory.current"), 0) -
      number_in(path("/memory.stat"), version_1 ? "total_inactive_file" : "inactive_file", 0);
  return std::max<std::int64_t>(0, limit - std::max<std::int64_t>(0, used));
}

}  // namespace

std::int64_t available_memory_bytes(const std::string& root) {
  const std::int64_t kibibytes = number_in(root + "/proc/meminfo", "MemAvailable:", unlimited / 1024);
  std::int64_t available = kibibytes * 1024;
  for (const ControlGroup& group : control_groups(root, "memory"))
    available = std::min(available, left_by(group));
  return available;
}

}  // namespace flotilla
