// SPDX-License-Identifier: Apache-2.0
#include "kernels/machine/available_memory.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

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

/// How one version names its files (kernel documentation: admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst).
struct MemoryController {
  std::string mount;
  std::string limit;
  std::string usage;
  std::string_view droppable;  ///< In memory.stat: file cache of the group and those below it.
};

/// What a group and those above it leave. A container may see its own group as the mount's root while
/// /proc names the host's path: what does not exist is passed over.
std::int64_t left_by_groups(const MemoryController& controller, std::string group) {
  std::int64_t left = unlimited;
  while (true) {
    const std::string folder = controller.mount + group + "/";
    const std::int64_t limit = number_of(folder + controller.limit, unlimited);
    if (limit != unlimited) {
      const std::int64_t used = number_of(folder + controller.usage, 0) -
                                number_in(folder + "memory.stat", controller.droppable, 0);
      left = std::min(left, std::max<std::int64_t>(0, limit - std::max<std::int64_t>(0, used)));
    }
    if (group.empty()) return left;
    group.resize(group.find_last_of('/'));
  }
}

/// "/a/b" of "/a/b", nothing of "/".
std::string without_last_slash(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  return path.empty() || path.front() == '/' ? path : "";
}

}  // namespace

std::int64_t available_memory_bytes(const std::string& root) {
  const std::int64_t kibibytes = number_in(root + "/proc/meminfo", "MemAvailable:", unlimited / 1024);
  std::int64_t available = kibibytes * 1024;
  // Lines "id:controllers:path"; version 2 has id 0 and no controllers.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = without_last_slash(line.substr(second + 1));
    if (controllers == ",,") {
      const MemoryController version_2{root + "/sys/fs/cgroup", "memory.max", "memory.current",
                                       "inactive_file"};
      available = std::min(available, left_by_groups(version_2, group));
    } else if (controllers.find(",memory,") != controllers.npos) {
      const MemoryController version_1{root + "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                       "memory.usage_in_bytes", "total_inactive_file"};
      available = std::min(available, left_by_groups(version_1, group));
    }
  }
  return available;
}

}  // namespace flotilla
