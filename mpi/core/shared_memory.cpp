// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

namespace {

/// The folder of the windows' files; Open MPI's own variable names another one.
std::string backing_folder() {
  const char* named = std::getenv("OMPI_MCA_osc_sm_backing_store");
  return named != nullptr ? named : "/dev/shm";
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
  const std::optional<std::int64_t> free = free_bytes(folder);  // unknown: the allocation finds out
  if (!free || needed <= *free) return "";
  return cat(ranks, host.size() == 1 ? " needs " : " need ", needed, " bytes of shared memory, ", folder,
             " has ", *free, " free there; enlarge or clean it (containers: --shm-size), or set ", remedy);
}

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

/// Reserves the memory of a part now: otherwise the system would report a lack of memory only at the first
/// access, by SIGBUS. @returns the error; 0: done
int reserve(int descriptor, std::size_t begin, std::size_t bytes) {
  int error = EINTR;
  while (error == EINTR && bytes > 0)
    error = ::posix_fallocate(descriptor, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  return bytes > 0 ? error : 0;
}

std::size_t bytes_of(std::size_t count) {
  // Saturates: the window refuses what does not fit.
  return count > (std::size_t{1} << 60) ? std::size_t{1} << 62 : count * sizeof(float);
}

/// Collective. @returns count
std::size_t same_on_all(const Communicator& host, std::size_t count) {
  std::array first{static_cast<std::int64_t>(count)};
  host.broadcast(std::span<std::int64_t>(first));
  require(first[0] == static_cast<std::int64_t>(count), "shared memory: ", count, " floats on rank ",
          host.rank(), " of the host, ", first[0], " on its first");
  return count;
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

SharedWindow::SharedWindow(const Communicator& host, std::size_t bytes, std::string_view remedy)
    : rank_(host.rank()), parts_(static_cast<std::size_t>(host.size())) {
  if (const std::string missing = missing_shared_memory(host, bytes, remedy); !missing.empty())
    throw UserError(missing);
  require(bytes <= largest_window_part, "a shared window of ", bytes, " bytes per rank");
  const auto own_bytes = static_cast<std::int64_t>(bytes);
  const std::vector<std::int64_t> sizes = host.all_gather(std::span(&own_bytes, 1));
  std::vector<std::size_t> begins{0};
  for (const std::int64_t size : sizes)
    begins.push_back(begins.back() + whole_pages(static_cast<std::size_t>(size)));
  const std::size_t own_begin = begins[static_cast<std::size_t>(rank_)];
  const std::size_t all = std::max<std::size_t>(begins.back(), 1);

  const SharedFile file(host);
  if (!file.failure().empty()) throw UserError(cat(file.failure(), "; set ", remedy));
  void* const base = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
  const int error = base == MAP_FAILED ? errno : reserve(file.descriptor(), own_begin, bytes);
  if (base != MAP_FAILED) mapped_ = {static_cast<std::byte*>(base), all};
  for (const int failed : host.all_gather(std::span(&error, 1)))
    if (failed != 0)
      throw UserError(cat(all, " bytes of shared memory for the ranks on ", host_name(), ": ",
                          std::strerror(failed), "; set ", remedy));
  for (std::size_t rank = 0; rank < parts_.size(); ++rank)
    parts_[rank] = mapped_.subspan(begins[rank], static_cast<std::size_t>(sizes[rank]));
  const std::span<std::byte> mine = of(rank_);
  std::memset(mine.data(), 0, mine.size());
  host.barrier();  // no rank sees a part that is not zeroed yet
}

SharedWindow::~SharedWindow() {
  if (std::uncaught_exceptions() == 0 && !mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
}

SharedStorage::SharedStorage(const Communicator& host, std::size_t count)
    : count_(count), window_(host, bytes_of(same_on_all(host, count))) {}

std::span<float> SharedStorage::of(int rank) {
  require(rank >= 0 && rank < ranks(), "shared storage of rank ", rank, " of ", ranks());
  return {reinterpret_cast<float*>(window_.of(rank).data()), count_};
}

}  // namespace flotilla::mpi
