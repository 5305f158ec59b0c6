// SPDX-License-Identifier: Apache-2.0
#include "kernels/machine/control_groups.hpp"

#include <climits>
#include <cstddef>
#include <filesystem>
#include <fstream>

#include "kernels/error.hpp"

namespace flotilla {

std::vector<ControlGroup> control_groups(const std::string& root, std::string_view controller) {
  std::vector<ControlGroup> groups;
  // Lines "id:controllers:path"; version 2 has id 0 and no controllers.
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos || line.size() - second > PATH_MAX) continue;  // a longer path cannot be opened
    const std::string controllers = cat(",", line.substr(first + 1, second - first - 1), ",");
    const int version = controllers == ",," ? 2 : 1;
    if (version == 1 && controllers.find(cat(",", controller, ",")) == controllers.npos) continue;
    const std::string top = cat(root, "/sys/fs/cgroup", version == 1 ? cat("/", controller) : "");
    std::filesystem::path path = std::filesystem::path(line.substr(second + 1)).relative_path();
    for (; !path.empty(); path = path.parent_path())
      if (path.has_filename()) groups.push_back({version, cat(top, "/", path.string())});
    groups.push_back({version, top});
  }
  return groups;
}

}  // namespace flotilla
