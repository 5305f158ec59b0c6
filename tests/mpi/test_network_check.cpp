// SPDX-License-Identifier: Apache-2.0
#include "mpi/start/network_check.hpp"

#include <gtest/gtest.h>

namespace flotilla::mpi {
namespace {

/// Places of ranks that are distributed over `hosts` hosts in turn.
std::vector<Place> dealt(const Communicator& world, int hosts) {
  std::vector<Place> places;
  for (int rank = 0; rank < world.size(); ++rank)
    places.push_back({.rank = rank,
                      .host = "h" + std::to_string(rank % hosts),
                      .host_index = rank % hosts,
                      .local_rank = rank / hosts});
  return places;
}

TEST(NetworkCheck, MeasuresEachPairOfHostsAndTellsAllRanks) {
  const auto world = Communicator::world();
  for (int hosts = 2; hosts <= world.size(); ++hosts) {
    int beats = 0;

    const NetworkReport report = check_network(world, dealt(world, hosts), [&](int) { ++beats; });

    EXPECT_EQ(report.hosts, hosts);
    EXPECT_EQ(report.pairs, static_cast<std::size_t>(hosts * (hosts - 1) / 2));
    EXPECT_GT(report.summary.slowest.bytes_per_s, 0.0);
    EXPECT_GE(report.summary.median_bytes_per_s, report.summary.slowest.bytes_per_s);
    EXPECT_GT(report.summary.median_latency_us, 0.0);
    if (world.rank() < hosts) {
      EXPECT_GE(beats, tournament_rounds(hosts));
    } else {
      EXPECT_EQ(beats, 0) << "sleeps";
    }
    double figures[] = {report.summary.median_latency_us, report.summary.slowest.bytes_per_s};
    double of_root[] = {figures[0], figures[1]};
    world.broadcast(std::span<double>(of_root));
    EXPECT_EQ(figures[0], of_root[0]);
    EXPECT_EQ(figures[1], of_root[1]);
  }
}

}  // namespace
}  // namespace flotilla::mpi
