// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/shared_window.hpp"

#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

#include "kernels/error.hpp"
#include "mpi/core/collective_scope.hpp"
#include "mpi/core/native.hpp"
#include "mpi/core/shared_memory_room.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::size_t alignment = 128;  // two lines: processors fetch them in pairs

std::byte* aligned(void* base) {
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  return reinterpret_cast<std::byte*>((address + alignment - 1) / alignment * alignment);
}

}  // namespace

SharedWindow::SharedWindow(const Communicator& host, std::size_t bytes, std::string_view remedy)
    : rank_(host.rank()), parts_(static_cast<std::size_t>(host.size())) {
  if (const std::string missing = missing_shared_memory(host, bytes, remedy); !missing.empty())
    throw UserError(missing);
  require(bytes <= largest_window_part, "a shared window of ", bytes, " bytes per rank");
  const auto own_part = static_cast<std::int64_t>(bytes + alignment);
  const std::vector<std::int64_t> sizes = host.all_gather(std::span(&own_part, 1));
  void* own = nullptr;
  {
    const CollectiveScope call(host, "allocation of shared memory", {});
    check(MPI_Win_allocate_shared(static_cast<MPI_Aint>(own_part), 1, MPI_INFO_NULL, NativeHandle::of(host),
                                  &own, &window_),
          "MPI_Win_allocate_shared");
  }
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
  host.barrier();  // no rank sees a part that is not zeroed yet
}

SharedWindow::~SharedWindow() {
  if (std::uncaught_exceptions() > 0) return;
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised == 0) MPI_Win_free(&window_);
}

}  // namespace flotilla::mpi
