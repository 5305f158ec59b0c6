// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/host_lines.hpp"

#include <gtest/gtest.h>

namespace flotilla::mpi {
namespace {

using Lines = std::vector<std::string>;

TEST(HostLines, DrawNamesTogetherThatCountOn) {
  EXPECT_EQ(text_of_hosts({"vm"}), "vm");
  EXPECT_EQ(text_of_hosts({"h0", "h1"}), "h0, h1");
  EXPECT_EQ(text_of_hosts({"h0", "h1", "h2", "h3"}), "h0…h3");
  EXPECT_EQ(text_of_hosts({"n08", "n09", "n10", "n11"}), "n08…n11");
  EXPECT_EQ(text_of_hosts({"n7", "n9", "n10", "n11", "login"}), "n7, n9…n11, login");
  EXPECT_EQ(text_of_hosts({"10", "11", "12"}), "10…12");
  EXPECT_EQ(text_of_hosts({"a1", "b2", "c3", "d4", "e5", "f6"}), "a1, b2, c3, d4 and 2 more");
  EXPECT_EQ(text_of_hosts({}), "");
}

TEST(HostLines, AreOneLineForOneHost) {
  EXPECT_EQ(describe_hosts({{.rank = 0, .host = "vm", .cores = 2, .sockets = 1, .nodes = 1}}),
            (Lines{"1 on vm, 2 cores, 1 socket"}));
  EXPECT_EQ(describe_hosts({{.rank = 0, .host = "vm", .cores = 2, .cores_shared_by = 2},
                            {.rank = 1, .host = "vm", .local_rank = 1, .cores = 2, .cores_shared_by = 2}}),
            (Lines{"2 on vm, 2 cores shared by them"}));
}

TEST(HostLines, AreOneLineForHostsThatAreAlike) {
  std::vector<Place> places;
  for (int rank = 0; rank < 8; ++rank)
    places.push_back({.rank = rank,
                      .host = "h" + std::to_string(rank % 4),
                      .host_index = rank % 4,
                      .local_rank = rank / 4,
                      .cores = 4,
                      .sockets = 1,
                      .nodes = 2,
                      .gpus = 4,
                      .quota = 6.5});

  EXPECT_EQ(describe_hosts(places), (Lines{"8 on 4 hosts h0…h3: 2 ranks each, 4 cores per rank, 1 socket, 2 "
                                           "NUMA nodes, 4 GPUs, no more than 6.5 "
                                           "cores' time"}));
}

TEST(HostLines, AreALineForEachKindOfHost) {
  const std::vector<Place> places = {{.rank = 0, .host = "h0", .cores = 1, .sockets = 2},
                                     {.rank = 1, .host = "h0", .local_rank = 1, .cores = 2, .sockets = 2},
                                     {.rank = 2, .host = "h1", .host_index = 1, .cores = 4, .sockets = 2}};

  EXPECT_EQ(describe_hosts(places), (Lines{"3 on 2 hosts", "  h0: 2 ranks, 1 to 2 cores per rank, 2 sockets",
                                           "  h1: 1 rank, 4 cores, 2 sockets"}));
}

}  // namespace
}  // namespace flotilla::mpi
