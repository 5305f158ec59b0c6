// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/bench_all_reduce.hpp"
#include "tests/mpi/all_reduces.hpp"

namespace flotilla::mpi {
namespace {

/// More than 2³¹ bytes, which no int counts, and not a multiple of anything.
constexpr std::size_t count = (std::size_t{1} << 29) + 37;

/// Collective. Whether both ranks' arrays fit into memory and /dev/shm, with as much again for others.
bool have_room(const Communicator& world) {
  struct statvfs state = {};
  const std::size_t needed = 2 * count * sizeof(float) * static_cast<std::size_t>(world.size());
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const bool in_memory = static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * page > needed;
  const bool in_shm = statvfs("/dev/shm", &state) == 0 && state.f_bavail * state.f_frsize > needed;
  int fits = in_memory && in_shm ? 1 : 0;
  world.all_reduce(std::span(&fits, 1), Op::min);
  return fits == 1;
}

TEST(LargeAllReduce, SumsMoreThan2To31Bytes) {
  const auto world = Communicator::world();
  if (!have_room(world)) GTEST_SKIP() << "needs " << 4 * count * sizeof(float) << " bytes of memory";
  SharedStorage storage(world, count);
  for (const Way& way : {Way{.algorithm = "shared-memory"},
                         Way{.algorithm = "hierarchical", .wire = Wire::float16, .ranks_per_group = 1}}) {
    const auto collectives = make(way, world, storage);
    fill_for_exact_sum(storage.mine(), way.wire, world.rank(), world.size());

    collectives->all_reduce(device_span(storage.mine()));

    EXPECT_TRUE(is_exact_sum(storage.mine(), way.wire, world.size())) << way;
  }
}

}  // namespace
}  // namespace flotilla::mpi
