// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/shared_window.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

#include "kernels/error.hpp"
#include "mpi/core/shared_memory_room.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

namespace {

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

/// Reserves the memory of a part, of which the system else says only at the first touch, by SIGBUS, that it
/// has none. @returns the error; 0: done
int reserve(int descriptor, std::size_t begin, std::size_t bytes) {
  int error = EINTR;
  while (error == EINTR && bytes > 0)
    error = ::posix_fallocate(descriptor, static_cast<off_t>(begin), static_cast<off_t>(bytes));
  return bytes > 0 ? error : 0;
}

}  // namespace

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

}  // namespace flotilla::mpi
