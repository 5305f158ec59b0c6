// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/shared_memory_room.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

namespace {

/// The folder in which MPI keeps the windows' files.
std::string backing_folder() {
  const char* named = std::getenv("OMPI_MCA_osc_sm_backing_store");
  return named != nullptr ? named : "/dev/shm";
}

/// Free bytes in `folder`; −1 if it cannot be determined (then MPI must find out).
std::int64_t free_bytes(const std::string& folder) {
  struct statvfs state = {};
  if (statvfs(folder.c_str(), &state) != 0) return -1;
  return static_cast<std::int64_t>(state.f_bavail) * static_cast<std::int64_t>(state.f_frsize);
}

/// Checks the host of this rank. @param needed bytes of all its ranks @returns what is missing; empty:
/// nothing
std::string missing_here(std::int64_t needed, int ranks, std::string_view remedy) {
  const std::string folder = backing_folder();
  const std::int64_t free = free_bytes(folder);
  if (free < 0 || needed <= free) return "";
  return cat("the ", ranks, ranks == 1 ? " rank on " : " ranks on ", host_name(),
             ranks == 1 ? " needs " : " need ", needed, " bytes of shared memory, ", folder, " has ", free,
             " free there; enlarge or clean it (containers: --shm-size), or set ", remedy);
}

}  // namespace

std::string missing_shared_memory(const Communicator& all, std::size_t bytes, std::string_view remedy) {
  const Communicator host = all.split_by_host();
  auto needed = static_cast<std::int64_t>(std::min(bytes, largest_window_part));
  host.all_reduce(std::span(&needed, 1));
  const std::string mine = host.is_root() ? missing_here(needed, host.size(), remedy) : "";
  const std::vector<std::string> texts = all.all_gather(mine);
  const auto lacks = [](const std::string& text) { return !text.empty(); };
  const auto first = std::ranges::find_if(texts, lacks);
  if (first == texts.end()) return "";
  const auto others = std::ranges::count_if(texts, lacks) - 1;
  if (others == 0) return *first;
  return cat(*first, "; ", others, others == 1 ? " other host lacks" : " other hosts lack", " memory too");
}

}  // namespace flotilla::mpi
