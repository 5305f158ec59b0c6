// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/shared_memory_room.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

namespace {

/// The folder of the windows' files; Open MPI's own variable names another one.
std::string backing_folder() {
  const char* named = std::getenv("OMPI_MCA_osc_sm_backing_store");
  return named != nullptr ? named : "/dev/shm";
}

/// Free bytes in `folder`; −1 if it cannot be determined (then the allocation must find out).
std::int64_t free_bytes(const std::string& folder) {
  struct statvfs state = {};
  if (statvfs(folder.c_str(), &state) != 0) return -1;
  return static_cast<std::int64_t>(state.f_bavail) * static_cast<std::int64_t>(state.f_frsize);
}

/// A name that no other process has or can foresee.
std::string new_path() {
  std::random_device random;
  return cat(backing_folder(), "/flotilla-", random(), "-", random(), "-", random());
}

/// Collective over `host`. What its ranks lack. @param needed bytes of all of them @returns empty: nothing
std::string missing_here(const Communicator& host, std::int64_t needed, std::string_view remedy) {
  const std::string ranks =
      cat("the ", host.size(), host.size() == 1 ? " rank on " : " ranks on ", host_name());
  const SharedFile file(host);
  if (!file.failure().empty())
    return cat(ranks, " cannot share memory: ", file.failure(),
               "; start the ranks of a host in one container, give their containers one /dev/shm (docker run "
               "--ipc=host), or set ",
               remedy);
  const std::string folder = backing_folder();
  const std::int64_t free = free_bytes(folder);
  if (free < 0 || needed <= free) return "";
  return cat(ranks, host.size() == 1 ? " needs " : " need ", needed, " bytes of shared memory, ", folder,
             " has ", free, " free there; enlarge or clean it (containers: --shm-size), or set ", remedy);
}

}  // namespace

SharedFile::SharedFile(const Communicator& host) {
  std::string path = host.is_root() ? new_path() : "";
  host.broadcast(path);
  const auto open_with = [&](int flags) {
    descriptor_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    return descriptor_ < 0 ? errno : 0;
  };
  // A rank that is alone shares with none, and may do without the folder.
  if (host.size() == 1) descriptor_ = ::memfd_create("flotilla", MFD_CLOEXEC);
  int error = host.size() > 1 && host.is_root() ? open_with(O_CREAT | O_EXCL) : 0;
  host.barrier();
  if (!host.is_root()) error = open_with(0);
  const std::vector<int> errors = host.all_gather(std::span<const int>(&error, 1));
  if (host.size() > 1 && host.is_root() && error == 0) ::unlink(path.c_str());
  const auto failed = std::ranges::find_if(errors, [](int code) { return code != 0; });
  if (failed == errors.end()) return;
  failure_ = *failed == ENOENT && failed != errors.begin()
                 ? cat("a file that one of them makes in ", backing_folder(),
                       " is not there for another, as in containers of their own")
                 : cat("a file in ", backing_folder(), " cannot be opened: ", std::strerror(*failed));
}

SharedFile::~SharedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string missing_shared_memory(const Communicator& all, std::size_t bytes, std::string_view remedy) {
  const Communicator host = all.split_by_host();
  auto needed = static_cast<std::int64_t>(std::min(bytes, largest_window_part));
  host.all_reduce(std::span(&needed, 1));
  std::string mine = needed > 0 ? missing_here(host, needed, remedy) : "";
  if (!host.is_root()) mine.clear();  // one line for each host
  const std::vector<std::string> texts = all.all_gather(mine);
  const auto lacks = [](const std::string& text) { return !text.empty(); };
  const auto first = std::ranges::find_if(texts, lacks);
  if (first == texts.end()) return "";
  const auto others = std::ranges::count_if(texts, lacks) - 1;
  if (others == 0) return *first;
  return cat(*first, "; ", others, others == 1 ? " other host lacks" : " other hosts lack", " memory too");
}

}  // namespace flotilla::mpi
