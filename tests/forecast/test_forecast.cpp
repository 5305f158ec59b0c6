// SPDX-License-Identifier: Apache-2.0
#include "src/forecast/forecast.hpp"

#include <gtest/gtest.h>

#include <array>

#include "kernels/error.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

const std::vector<MeasuredSum> one_host = {
    {.algorithm = "mpi", .hosts = 1, .ranks = 2, .bytes = 1000.0, .seconds = 1.0},
    {.algorithm = "mpi", .hosts = 1, .ranks = 2, .bytes = 3000.0, .seconds = 2.0},
    {.algorithm = "shared-memory", .hosts = 1, .ranks = 2, .bytes = 1000.0, .seconds = 0.5},
};

Interconnect cluster() {
  return {.measured = one_host, .latency_s = 0.25, .bytes_per_s = 1000.0};
}

TEST(SlowestRank, OfOneRankIsItsMean) {
  const MeasuredSteps steps = {{1.0, 2.0, 6.0}};
  EXPECT_EQ(slowest_s(steps, 1, 1), 3.0);
  EXPECT_EQ(slowest_s(steps, 1, 7), 21.0);
  EXPECT_EQ(mean_s(steps, 5), 3.0);
}

TEST(SlowestRank, WithoutSpreadTakesTheSumOfItsSteps) {
  const MeasuredSteps steps = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
  for (const int ranks : {1, 2, 3, 1000}) {
    EXPECT_EQ(slowest_s(steps, ranks, 1), 0.5);
    EXPECT_EQ(slowest_s(steps, ranks, 8), 4.0);
  }
}

TEST(SlowestRank, IsTheMaximumOfIndependentDraws) {
  const MeasuredSteps steps = {{1.0, 2.0}};
  EXPECT_EQ(slowest_s(steps, 2, 1), 1.75);   // 2 in three of four draws
  EXPECT_EQ(slowest_s(steps, 3, 1), 1.875);  // in seven of eight
  EXPECT_TRUE(test::within(slowest_s(steps, 1000, 1), 2.0, 1e-12));
  EXPECT_EQ(slowest_s(steps, 1000, 2), 3.0) << "every two steps in a row take as long";
}

TEST(SlowestRank, KeepsWhatHitsMeasuredRanksAtATime) {
  const MeasuredSteps together = {{1.0, 2.0}, {1.0, 2.0}};
  const MeasuredSteps in_turn = {{1.0, 2.0}, {2.0, 1.0}};
  EXPECT_EQ(slowest_s(together, 2, 1), 1.5);
  EXPECT_EQ(slowest_s(in_turn, 2, 1), 2.0);
  EXPECT_EQ(slowest_s(in_turn, 2, 2), 3.0);
  EXPECT_EQ(slowest_s(together, 4, 1), 1.75) << "two hosts, drawn independently";
}

TEST(AllReduce, OfOneRankTakesNoTime) {
  EXPECT_EQ(all_reduce_s({}, "mpi", {1, 1}, 1e9), 0.0);
}

TEST(AllReduce, InsideAHostIsInterpolated) {
  EXPECT_EQ(all_reduce_s(cluster(), "mpi", {1, 2}, 2000.0), 1.5);
  EXPECT_EQ(all_reduce_s(cluster(), "mpi", {1, 2}, 10.0), 1.0);
  EXPECT_EQ(all_reduce_s(cluster(), "mpi", {1, 2}, 6000.0), 4.0);
  EXPECT_THROW(all_reduce_s(cluster(), "mpi", {1, 3}, 1000.0), UserError);
}

TEST(AllReduce, BetweenHostsSendsTwoHalvesOrAllAtOnce) {
  // 2 · 0.25 s + 4,000 bytes at 1,000 a second; whole it takes 0.25 + 4 s.
  EXPECT_EQ(all_reduce_s(cluster(), "mpi", {2, 1}, 4000.0), 4.25);
  // Of four hosts 4 messages and 3/2 of the bytes; whole 2 (0.25 + 4).
  EXPECT_EQ(all_reduce_s(cluster(), "mpi", {4, 1}, 4000.0), 7.0);
  EXPECT_EQ(all_reduce_s(cluster(), "mpi", {4, 1}, 0.0), 0.5);
  // Inside 1 or 0.5 s; ranks of a host share its connection.
  EXPECT_EQ(all_reduce_s(cluster(), "mpi", {2, 2}, 1000.0), 1.0 + 1.5);
  EXPECT_EQ(all_reduce_s(cluster(), "hierarchical", {2, 2}, 1000.0), 0.5 + 0.5 + 1.0);
  EXPECT_EQ(all_reduce_s(cluster(), "hierarchical", {4, 2}, 1000.0), 0.5 + 0.5 + 1.5);
  EXPECT_THROW(all_reduce_s({}, "mpi", {2, 1}, 1000.0), UserError);
}

TEST(AllReduce, OfMpiAmongThreeHostsFoldsTwoOfThem) {
  // Half of 4,000 bytes both ways, half and all one way, and all of them between two hosts; 7 messages.
  EXPECT_EQ(all_reduce_s(cluster(), "mpi", {3, 1}, 40000.0), 7 * 0.25 + 20.0 + 20.0 + 40.0 + 40.0);
}

TEST(AllReduce, TakesLongerWhereMessagesBothWaysDo) {
  Interconnect on = cluster();
  on.both_ways = 2.0;
  EXPECT_EQ(all_reduce_s(on, "mpi", {2, 1}, 4000.0), 0.25 + 8.0);
  EXPECT_EQ(all_reduce_s(on, "mpi", {4, 1}, 4000.0), 1.0 + 12.0);
  EXPECT_EQ(all_reduce_s(on, "hierarchical", {2, 2}, 1000.0), 0.5 + 0.5 + 1.5);
  EXPECT_EQ(exchange_s(on, {4, 1}, 1000.0), 2.0);
  EXPECT_EQ(exchange_s(on, {2, 2}, 1000.0), 1.5) << "pushes and answers go the same way";
}

TEST(AllReduce, OnAnInfiniteNetworkTakesWhatItTakesInsideAHost) {
  Interconnect fast = cluster();
  fast.latency_s = 0.0;
  fast.bytes_per_s = 1e30;
  EXPECT_TRUE(test::within(all_reduce_s(fast, "mpi", {1000, 1}, 1e9), 0.0, 1e-12));
  EXPECT_EQ(all_reduce_s(fast, "hierarchical", {1000, 2}, 1000.0), 0.5);
  EXPECT_TRUE(test::within(exchange_s(fast, {1000, 2}, 1e9), 0.0, 1e-12));
}

TEST(AllReduce, AsItWasMeasuredWinsOverTheModel) {
  Interconnect on = cluster();
  on.measured.push_back({.algorithm = "mpi", .hosts = 2, .ranks = 4, .bytes = 1000.0, .seconds = 9.0});
  EXPECT_EQ(all_reduce_s(on, "mpi", {2, 2}, 1000.0), 9.0);
}

TEST(AllReduce, OnAHalfWireSendsHalfOfTheBytesBetweenHosts) {
  Interconnect on = cluster();
  on.wire_share = 0.5;
  EXPECT_EQ(all_reduce_s(on, "hierarchical", {2, 2}, 1000.0), 0.5 + 0.5 + 0.5);
}

TEST(Exchange, SendsWhatIsNotOfTheHostsOwnServers) {
  EXPECT_EQ(exchange_s({}, {1, 2}, 1e9), 0.0);
  EXPECT_EQ(exchange_s(cluster(), {2, 1}, 1000.0), 1.5);
  // Two workers push 3/4 elsewhere; two servers, of an eighth each, answer six workers elsewhere.
  EXPECT_EQ(exchange_s(cluster(), {4, 4}, 1000.0), 0.5 + 2 * 0.75 + 2 * 6 * 0.125);
}

TEST(ExposedCommunication, IsWhatBackwardDoesNotHide) {
  const auto at_ten_a_second = [](double bytes) { return bytes / 10.0; };
  const std::array<double, 1> one = {10.0};
  const std::array<double, 2> two = {30.0, 10.0};
  EXPECT_EQ(exposed_s(one, 5.0, at_ten_a_second), 1.0);
  EXPECT_EQ(exposed_s(two, 0.0, at_ten_a_second), 4.0);
  EXPECT_EQ(exposed_s(two, 4.0, at_ten_a_second), 3.0);   // the first ends at 6, the second at 7
  EXPECT_EQ(exposed_s(two, 40.0, at_ten_a_second), 1.0);  // the last one always shows
  EXPECT_EQ(exposed_s(two, 4.0, [](double) { return 0.0; }), 0.0);
}

}  // namespace
}  // namespace flotilla
