// SPDX-License-Identifier: Apache-2.0
#include "mpi/shared_window.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>
#include <string>

#include "kernels/error.hpp"
#include "mpi/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::size_t alignment = 128;                      // two lines: processors fetch them in pairs
constexpr std::size_t largest_part = std::size_t{1} << 44;  // keeps the sum over a host's ranks in 64 bits

/// The folder in which MPI keeps the window's file.
std::string backing_folder() {
  const char* named = std::getenv("OMPI_MCA_osc_sm_backing_store");
  return named != nullptr ? named : "/dev/shm";
}

/// Free bytes in `folder`; −1 if it cannot be told (then MPI must find out).
std::int64_t free_bytes(const std::string& folder) {
  struct statvfs state = {};
  if (statvfs(folder.c_str(), &state) != 0) return -1;
  return static_cast<std::int64_t>(state.f_bavail) * static_cast<std::int64_t>(state.f_frsize);
}

/// Collective. Memory that is missing shows at the first touch only, as SIGBUS: so look before.
/// @param parts bytes of each rank's, the margin included
void require_room(const Communicator& host, std::span<const std::int64_t> parts, std::string_view remedy) {
  const std::string folder = backing_folder();
  std::array free{host.is_root() ? free_bytes(folder) : 0};
  host.broadcast(std::span<std::int64_t>(free));
  const auto needed = std::accumulate(parts.begin(), parts.end(), std::int64_t{0});
  if (free[0] < 0 || needed <= free[0]) return;
  throw UserError(cat("the ", host.size(), " ranks of this host need ", needed, " bytes of shared memory, ",
                      folder, " has ", free[0],
                      " free; enlarge or clean it (containers: --shm-size), or set ", remedy));
}

std::byte* aligned(void* base) {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  return reinterpret_cast<std::byte*>((address + alignment - 1) / alignment * alignment);
}

}  // namespace

SharedWindow::SharedWindow(const Communicator& host, std::size_t bytes, std::string_view remedy)
    : rank_(host.rank()), parts_(static_cast<std::size_t>(host.size())) {
  // More than any machine has is a mistake of the deck like any other lack of room.
  const auto with_margin = static_cast<std::int64_t>(std::min(bytes, largest_part) + alignment);
  const std::vector<std::int64_t> sizes = host.all_gather(std::span(&with_margin, 1));
  require_room(host, sizes, remedy);
  require(bytes <= largest_part, "a shared window of ", bytes, " bytes per rank");
  void* own = nullptr;
  check(MPI_Win_allocate_shared(static_cast<MPI_Aint>(with_margin), 1, MPI_INFO_NULL, NativeHandle::of(host),
                                &own, &window_),
        "MPI_Win_allocate_shared");
  check(MPI_Win_set_errhandler(window_, MPI_ERRORS_RETURN), "MPI_Win_set_errhandler");
  for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
    MPI_Aint size = 0;
    int unit = 0;
    void* base = nullptr;
    check(MPI_Win_shared_query(window_, static_cast<int>(rank), &size, &unit, &base), "MPI_Win_shared_query");
    parts_[rank] = {aligned(base), static_cast<std::size_t>(sizes[rank]) - alignment};
  }
  const std::span<std::byte> mine = of(rank_);
  std::memset(mine.data(), 0, mine.size());
  host.barrier();  // nobody sees a part that is not zeroed yet
}

SharedWindow::~SharedWindow() {
  if (std::uncaught_exceptions() > 0) return;
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised == 0) MPI_Win_free(&window_);
}

}  // namespace flotilla::mpi
