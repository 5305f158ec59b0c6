// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/host_lines.hpp"
#include "mpi/core/roles.hpp"
#include "mpi/core/topology.hpp"
#include "tests/support/messages.hpp"

namespace flotilla::mpi {
namespace {

/// Ranks in order, each on the host given.
std::vector<Place> places_on(const std::vector<int>& hosts) {
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    places.push_back({.rank = static_cast<int>(rank),
                      .host = "node" + std::to_string(hosts[rank]),
                      .host_index = hosts[rank],
                      .local_rank = static_cast<int>(std::count(
                          hosts.begin(), hosts.begin() + static_cast<std::ptrdiff_t>(rank), hosts[rank]))});
  }
  return places;
}

/// `ranks` ranks, `per_host` on each host but perhaps the last.
std::vector<Place> places(int ranks, int per_host) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / per_host);
  return places_on(hosts);
}

std::string error_of(const RoleOptions& options, const std::vector<Place>& of) {
  return flotilla::test::error_of([&] { assign_roles(options, of); });
}

/// Indices count up from 0 within each role, and every rank has its place's host.
void expect_consistent(const RoleTable& table, const std::vector<Place>& of) {
  ASSERT_EQ(table.entries.size(), of.size());
  int servers = 0;
  int workers = 0;
  for (std::size_t rank = 0; rank < of.size(); ++rank) {
    const RoleEntry& entry = table.entries[rank];
    EXPECT_EQ(entry.rank, of[rank].rank);
    EXPECT_EQ(entry.host, of[rank].host);
    EXPECT_EQ(entry.index, entry.role == Role::server ? servers++ : workers++);
  }
  EXPECT_EQ(table.count(Role::server), servers);
  EXPECT_EQ(table.count(Role::worker), workers);
}

TEST(Roles, CollectiveHasOnlyWorkers) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const RoleTable table = assign_roles({.kind = RoleKind::collective}, places(ranks, 8));

    expect_consistent(table, places(ranks, 8));
    EXPECT_EQ(table.count(Role::worker), ranks);
  }
}

TEST(Roles, SymmetricMakesEvenRanksServersAndOddRanksWorkers) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const RoleOptions options{.kind = RoleKind::symmetric};
    if (ranks % 2 != 0) {
      EXPECT_THROW(assign_roles(options, places(ranks, 4)), UserError) << ranks;
      continue;
    }

    const RoleTable table = assign_roles(options, places(ranks, 4));

    expect_consistent(table, places(ranks, 4));
    for (const RoleEntry& entry : table.entries) {
      EXPECT_EQ(entry.role, entry.rank % 2 == 0 ? Role::server : Role::worker);
      EXPECT_EQ(entry.index, entry.rank / 2);
    }
    EXPECT_TRUE(pairs_apart(table).empty());
  }
}

TEST(Roles, SymmetricSaysWhatToDoAboutAnOddNumberOfRanks) {
  EXPECT_EQ(error_of({.kind = RoleKind::symmetric}, places(5, 5)),
            "roles.kind = \"symmetric\" pairs each worker with a server and so needs an even number of "
            "ranks, got 5; start 6 or 4 ranks, or use roles.kind = \"ratio\"");
  EXPECT_TRUE(test::mentions(error_of({.kind = RoleKind::symmetric}, places(1, 1)), {"start 2 ranks"}));
}

TEST(Roles, SymmetricKnowsThePairsThatTheNetworkParts) {
  const auto table = assign_roles({.kind = RoleKind::symmetric}, places_on({0, 0, 0, 1, 1, 2, 2, 2}));

  EXPECT_EQ(pairs_apart(table), (std::vector{2, 4}));
}

TEST(Roles, RatioSpreadsServersEvenlyOverHosts) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    for (const int per_host : {1, 2, 4, 7, 64}) {
      const std::vector<Place> of = places(ranks, per_host);
      for (int servers = 1; servers < ranks; ++servers) {
        const RoleTable table = assign_roles({.kind = RoleKind::ratio, .servers = servers}, of);

        expect_consistent(table, of);
        ASSERT_EQ(table.count(Role::server), servers);
        std::vector<int> serving(static_cast<std::size_t>(hosts(of)));
        std::vector<int> there(serving.size());
        for (const RoleEntry& entry : table.entries) {
          const auto host = static_cast<std::size_t>(entry.host_index);
          // The first ranks of a host serve.
          if (entry.role == Role::server) {
            EXPECT_EQ(serving[host], there[host]);
            ++serving[host];
          }
          ++there[host];
        }
        const int most = *std::ranges::max_element(serving);
        for (std::size_t host = 0; host < serving.size(); ++host)
          EXPECT_TRUE(serving[host] >= most - 1 || serving[host] == there[host]) << ranks << " " << per_host;
      }
    }
  }
}

TEST(Roles, RatioLeavesALonelyRankToWorkWhereItCan) {
  const auto table = assign_roles({.kind = RoleKind::ratio, .servers = 1}, places_on({0, 1, 1, 1}));

  EXPECT_EQ(table.ranks(Role::server), std::vector{1});
}

TEST(Roles, RatioWorksWithRanksDealtToHostsInTurn) {
  const auto table = assign_roles({.kind = RoleKind::ratio, .servers = 2}, places_on({0, 1, 0, 1, 0, 1}));

  EXPECT_EQ(table.ranks(Role::server), (std::vector{0, 1}));
  EXPECT_EQ(table.ranks(Role::worker), (std::vector{2, 3, 4, 5}));
}

TEST(Roles, RatioNeedsAServerAndAWorker) {
  for (const int servers : {-1, 0, 4, 5}) {
    EXPECT_EQ(error_of({.kind = RoleKind::ratio, .servers = servers}, places(4, 4)),
              "roles.servers is " + std::to_string(servers) +
                  ", but of 4 ranks at least one must serve and one must work; give a number from 1 to 3, or "
                  "start more ranks");
  }
  EXPECT_TRUE(test::mentions(error_of({.kind = RoleKind::ratio, .servers = 1}, places(1, 1)),
                             {"start at least 2 ranks"}));
}

TEST(Roles, AreAsListed) {
  const auto table = assign_roles(
      {.kind = RoleKind::user_defined, .server_ranks = "5, 0-1", .worker_ranks = " 2-4 ,6"}, places(7, 3));

  expect_consistent(table, places(7, 3));
  EXPECT_EQ(table.ranks(Role::server), (std::vector{0, 1, 5}));
  EXPECT_EQ(table, assign_roles({.kind = RoleKind::user_defined, .server_ranks = "0,1,5"}, places(7, 3)));
}

TEST(Roles, ListsWithHolesOrRepeatsAreRefused) {
  const auto said = [](const std::string& servers, const std::string& workers) {
    return error_of({.kind = RoleKind::user_defined, .server_ranks = servers, .worker_ranks = workers},
                    places(6, 6));
  };

  EXPECT_EQ(said("0-1", "1-5"),
            "rank 1 stands in roles.server_ranks and in roles.worker_ranks; take it out of one of them");
  EXPECT_EQ(said("0", "2,4-5"),
            "ranks 1, 3 of 6 stand neither in roles.server_ranks nor in roles.worker_ranks; add them to one, "
            "or leave roles.worker_ranks empty: then all that do not serve work");
  EXPECT_EQ(said("0,2,0-1", ""), "roles.server_ranks names rank 0 twice; take it out once");
  EXPECT_EQ(said("", ""),
            "roles.server_ranks names no rank; name at least one, or use roles.kind = \"collective\"");
  EXPECT_EQ(said("0-5", ""),
            "roles.server_ranks names all 6 ranks, so that none works; leave at least one out");
  EXPECT_EQ(
      said("0-6", ""),
      "roles.server_ranks names rank 6, but there are only ranks 0 to 5; correct it or start more ranks");
  EXPECT_EQ(said("99999999999", ""),
            "roles.server_ranks names rank 99999999999, but there are only ranks 0 to 5; correct it or start "
            "more ranks");
  EXPECT_EQ(said("3-1", ""), "roles.server_ranks: the range 3-1 ends before it begins; write 1-3");
  for (const char* bad : {"a", "0,", ",0", "0;1", "-1", "1-", "1-2-3", "0x1", "1.0", "+1"}) {
    EXPECT_EQ(
        said(bad, ""),
        std::string(
            "roles.server_ranks must be ranks and ranges of them between commas, like \"0, 4-7\"; got \"") +
            bad + "\"");
  }
}

TEST(Roles, RanksAreWrittenAsTheyAreRead) {
  for (const char* text : {"", "3", "0-1", "0, 2, 4-7", "0-7"}) {
    EXPECT_EQ(text_of_ranks(parse_ranks(text, 8, "key")), text);
  }
}

TEST(Roles, ArePrintedAsATable) {
  const auto table = assign_roles({.kind = RoleKind::symmetric}, places_on({0, 0, 1, 1}));

  EXPECT_EQ(lines_of(table),
            (std::vector<std::string>{" rank  host   role    index", "    0  node0  server      0",
                                      "    1  node0  worker      0", "    2  node1  server      1",
                                      "    3  node1  worker      1"}));
  EXPECT_EQ(lines_of(table, {"a", "b", "c", "d"}).front(), " rank  host   role    index  device");
  EXPECT_EQ(lines_of(table, {"a", "b", "c", "d"}).back(), "    3  node1  worker      1  d");
}

TEST(Groups, AreTheHostsByDefault) {
  EXPECT_EQ(cut_groups(places_on({0, 0, 1, 1, 1}), 0), (std::vector{0, 0, 1, 1, 1}));
  EXPECT_EQ(cut_groups(places_on({0, 1, 0, 1}), 0), (std::vector{0, 1, 0, 1}));
}

TEST(Groups, AreCutFromTheRanksHostByHost) {
  EXPECT_EQ(cut_groups(places_on({0, 0, 0, 0}), 2), (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(cut_groups(places_on({0, 0, 0, 0, 0}), 2), (std::vector{0, 0, 1, 1, 2}));
  // Ranks placed round-robin on hosts: the groups are on the hosts all the same.
  EXPECT_EQ(cut_groups(places_on({0, 1, 0, 1, 0, 1, 0, 1}), 2), (std::vector{0, 2, 0, 2, 1, 3, 1, 3}));
  EXPECT_EQ(cut_groups(places_on({0, 1, 2}), 3), (std::vector{0, 0, 0}));
}

TEST(Groups, KnowWhetherTheyStayOnHosts) {
  const auto places = places_on({0, 0, 0, 1, 1, 1});

  EXPECT_TRUE(groups_stay_on_hosts(places, cut_groups(places, 0)));
  EXPECT_TRUE(groups_stay_on_hosts(places, cut_groups(places, 3)));
  EXPECT_TRUE(groups_stay_on_hosts(places, cut_groups(places, 1)));
  EXPECT_FALSE(groups_stay_on_hosts(places, cut_groups(places, 2)));
}

TEST(Groups, AreSubtreesIfEachIsTheNextPowerOfTwoOfRanks) {
  for (const auto& good : {std::vector{0}, std::vector{0, 1, 2}, std::vector{0, 0, 1, 1, 2},
                           std::vector{0, 0, 0}, std::vector{0, 0, 0, 0, 1}})
    EXPECT_TRUE(groups_are_subtrees(good));
  for (const auto& bad : {std::vector{0, 1, 0, 1}, std::vector{0, 0, 0, 1, 1, 1}, std::vector{0, 1, 1, 2},
                          std::vector{0, 0, 1, 2, 2}})
    EXPECT_FALSE(groups_are_subtrees(bad));
}

TEST(Groups, AreRefusedWhereTheyCannotBe) {
  EXPECT_THROW(cut_groups(places_on({0, 0}), 3), UserError);
  EXPECT_THROW(cut_groups(places_on({0, 0}), -1), UserError);
}

TEST(Groups, AreEqualWithAsManyRanksEach) {
  EXPECT_TRUE(groups_are_equal({0, 0, 1, 1}));
  EXPECT_TRUE(groups_are_equal({0, 1, 0, 1}));
  EXPECT_TRUE(groups_are_equal({0}));
  EXPECT_FALSE(groups_are_equal({0, 0, 1}));
  EXPECT_FALSE(groups_are_equal({0, 0, 0, 1}));
}

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
                                           "NUMA nodes, 4 GPUs, no more than 6.5 cores' time"}));
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
