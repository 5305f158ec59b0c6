// SPDX-License-Identifier: Apache-2.0
#include "kernels/machine/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

#include "kernels/error.hpp"
#include "kernels/machine/control_groups.hpp"

namespace flotilla::mpi {

namespace {

namespace fs = std::filesystem;

constexpr int max_processors = 8192;  // what Linux can be built for
constexpr std::string_view blanks = " \t\n";

/// The first line of a small file; empty if it cannot be read.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

using Mask = std::vector<std::byte>;

cpu_set_t* set_in(Mask& mask) {
  return reinterpret_cast<cpu_set_t*>(mask.data());
}

Mask own_mask() {
  Mask mask(CPU_ALLOC_SIZE(max_processors));
  if (sched_getaffinity(0, mask.size(), set_in(mask)) != 0)
    throw LibraryError("sched_getaffinity", std::strerror(errno));
  return mask;
}

/// The number of the host's processors that the job may use: the system cuts a mask of all of them down to
/// those that the control group allows. Slurm may confine a job by masks alone; then it says how many there
/// are.
int count_allowed(Mask own) {
  Mask mask(own.size(), std::byte{0xff});
  if (sched_setaffinity(0, mask.size(), set_in(mask)) != 0) return 0;
  mask = own_mask();
  if (sched_setaffinity(0, own.size(), set_in(own)) != 0)
    throw LibraryError("sched_setaffinity", std::strerror(errno));
  int allowed = CPU_COUNT_S(mask.size(), set_in(mask));
  const char* const slurm = std::getenv("SLURM_CPUS_ON_NODE");
  const std::vector<int> given = parse_processor_list(slurm == nullptr ? "" : slurm);
  if (given.size() == 1 && given.front() > 0) allowed = std::min(allowed, given.front());
  return allowed;
}

std::vector<int> listed(Mask mask) {
  cpu_set_t* const set = set_in(mask);
  std::vector<int> own;
  for (int id = 0; id < max_processors; ++id)
    if (CPU_ISSET_S(static_cast<std::size_t>(id), mask.size(), set)) own.push_back(id);
  return own;
}

/// The numbers of the entries "node0", "node1" … of a folder.
std::vector<int> numbered(const std::string& folder, std::string_view name) {
  std::vector<int> numbers;
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string entry = at->path().filename().string();
    if (!entry.starts_with(name)) continue;
    const std::vector<int> number = parse_processor_list(std::string_view(entry).substr(name.size()));
    if (number.size() == 1) numbers.push_back(number.front());
  }
  return numbers;
}

struct Location {
  std::set<int> own;
  std::set<int> host;
};

std::vector<int> listed(const std::set<int>& numbers) {
  return {numbers.begin(), numbers.end()};
}

Location find_sockets(const std::string& root, const std::vector<int>& own, const std::vector<int>& online) {
  Location sockets;
  for (const int id : online) {
    const std::vector<int> socket = parse_processor_list(
        first_line(cat(root, "/sys/devices/system/cpu/cpu", id, "/topology/physical_package_id")));
    if (socket.size() != 1) continue;  // "-1" where the kernel does not know
    sockets.host.insert(socket.front());
    if (std::ranges::binary_search(own, id)) sockets.own.insert(socket.front());
  }
  return sockets;
}

Location find_nodes(const std::string& root, const std::vector<int>& own) {
  Location nodes;
  const std::string folder = root + "/sys/devices/system/node";
  for (const int node : numbered(folder, "node")) {
    const std::vector<int> there = parse_processor_list(first_line(cat(folder, "/node", node, "/cpulist")));
    if (there.empty()) continue;  // memory only
    nodes.host.insert(node);
    if (std::ranges::any_of(there, [&](int id) { return std::ranges::binary_search(own, id); }))
      nodes.own.insert(node);
  }
  return nodes;
}

/// Processors' time of "150000 100000", or of the two words apart; 0 where there is no limit.
double share(const std::string& quota, const std::string& period) {
  double allowed = 0.0;
  double of = 0.0;
  std::istringstream(quota) >> allowed;  // "max" and "-1" are no limit
  std::istringstream(period) >> of;
  return allowed > 0.0 && of > 0.0 ? allowed / of : 0.0;
}

double limit_of(const ControlGroup& group) {
  if (group.version == 1)
    return share(first_line(group.folder + "/cpu.cfs_quota_us"),
                 first_line(group.folder + "/cpu.cfs_period_us"));
  const std::string both = first_line(group.folder + "/cpu.max");
  return share(both, both.substr(std::min(both.size(), both.find(' '))));
}

/// The smallest limit of this process's control groups.
void find_quota(const std::string& root, Processors& found) {
  for (const ControlGroup& group : control_groups(root, "cpu")) {
    const double limit = limit_of(group);
    if (limit > 0.0 && (found.quota == 0.0 || limit < found.quota)) {
      found.quota = limit;
      found.quota_group = group.folder;
    }
  }
}

}  // namespace

std::vector<int> parse_processor_list(std::string_view text) {
  while (!text.empty() && blanks.find(text.back()) != blanks.npos) text.remove_suffix(1);
  std::vector<int> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int low = 0;
    auto [stop, failure] = std::from_chars(at, end, low);
    if (failure != std::errc{} || low < 0 || low >= max_processors) return {};
    int high = low;
    if (stop != end && *stop == '-') {
      const auto [stop_high, failure_high] = std::from_chars(stop + 1, end, high);
      if (failure_high != std::errc{} || high < low || high >= max_processors) return {};
      stop = stop_high;
    }
    for (int id = low; id <= high; ++id) ids.push_back(id);
    if (stop != end && *stop++ != ',') return {};
    at = stop;
  }
  return ids;
}

Processors find_processors(const std::string& root) {
  const Mask mask = own_mask();
  Processors found{.own = listed(mask)};
  found.allowed = std::max(count_allowed(mask), static_cast<int>(found.own.size()));
  std::vector<int> online = parse_processor_list(first_line(root + "/sys/devices/system/cpu/online"));
  if (online.empty()) online = found.own;
  const Location sockets = find_sockets(root, found.own, online);
  found.sockets = listed(sockets.own);
  found.host_sockets = static_cast<int>(sockets.host.size());
  const Location nodes = find_nodes(root, found.own);
  found.nodes = listed(nodes.own);
  found.host_nodes = static_cast<int>(nodes.host.size());
  find_quota(root, found);
  std::error_code none;
  for (fs::directory_iterator at(root + "/proc/driver/nvidia/gpus", none), end; !none && at != end;
       at.increment(none))
    ++found.gpus;
  return found;
}

}  // namespace flotilla::mpi
