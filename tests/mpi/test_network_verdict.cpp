// SPDX-License-Identifier: Apache-2.0
#include "mpi/start/network_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/messages.hpp"

namespace flotilla::mpi {
namespace {

using Pairs = std::vector<HostPair>;
const std::vector<std::string> names = {"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"};

TEST(PairwiseLinkTest, LetsEachMeetEachOnce) {
  for (int hosts = 0; hosts <= 17; ++hosts) {
    std::set<HostPair> met;
    for (int round = 0; round < tournament_rounds(hosts); ++round) {
      std::set<int> busy;
      for (const auto& [a, b] : tournament_round(hosts, round)) {
        EXPECT_LT(a, b);
        EXPECT_TRUE(0 <= a && b < hosts);
        EXPECT_TRUE(busy.insert(a).second && busy.insert(b).second) << "twice in round " << round;
        EXPECT_TRUE(met.insert({a, b}).second) << "met before";
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(hosts * std::max(0, hosts - 1) / 2)) << hosts << " hosts";
  }
}

TEST(PairwiseLinkTest, PlaysSomeRoundsOnlyWithManyHosts) {
  EXPECT_EQ(rounds_to_play(2, 15), std::vector<int>{0});
  EXPECT_EQ(rounds_to_play(4, 15), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(rounds_to_play(1, 15), std::vector<int>{});
  const std::vector<int> some = rounds_to_play(1000, 15);
  EXPECT_EQ(some.size(), 15U);
  EXPECT_EQ(std::set<int>(some.begin(), some.end()).size(), 15U);
  EXPECT_LT(some.back(), tournament_rounds(1000));
}

/// Links between all hosts, each with 1 GB/s and 20 µs.
std::vector<LinkFigures> even(int hosts) {
  std::vector<LinkFigures> links;
  for (int round = 0; round < tournament_rounds(hosts); ++round)
    for (const auto& [a, b] : tournament_round(hosts, round))
      links.push_back({.a = a, .b = b, .latency_us = 20.0, .bytes_per_s = 1e9});
  return links;
}

LinkFigures& link_of(std::vector<LinkFigures>& links, int a, int b) {
  for (LinkFigures& link : links)
    if (link.a == a && link.b == b) return link;
  ADD_FAILURE() << "no link " << a << " " << b;
  return links.front();
}

TEST(NetworkSummary, FindsNothingWhereAllIsEven) {
  for (const int hosts : {2, 3, 10}) {
    const NetworkSummary summary = judge_network(even(hosts), names);
    EXPECT_TRUE(summary.warnings.empty()) << summary.warnings.front();
    EXPECT_EQ(summary.suspects, Pairs{});
    EXPECT_EQ(summary.median_bytes_per_s, 1e9);
    EXPECT_EQ(summary.median_latency_us, 20.0);
  }
}

TEST(NetworkSummary, FindsASlowHostAmongThree) {
  std::vector<LinkFigures> links = even(3);
  link_of(links, 0, 2).bytes_per_s = 1e8;
  link_of(links, 1, 2).bytes_per_s = 0.9e8;

  const NetworkSummary summary = judge_network(links, names);

  EXPECT_EQ(summary.slow_hosts, std::vector<int>{2});
  EXPECT_EQ(summary.suspects, (Pairs{{0, 2}, {1, 2}}));
  EXPECT_EQ(summary.median_bytes_per_s, 1e9);
  EXPECT_EQ(summary.slowest.bytes_per_s, 0.9e8);
  ASSERT_EQ(summary.warnings.size(), 1U);
  EXPECT_EQ(summary.warnings[0].find(
                "the network of h2 is slow: at most 0.1 GB/s to any host, between the others 1 GB/s; "),
            0U)
      << summary.warnings[0];
}

TEST(NetworkSummary, FindsASlowAndALateLink) {
  std::vector<LinkFigures> links = even(6);
  link_of(links, 1, 4).bytes_per_s = 4.9e8;
  link_of(links, 0, 5).latency_us = 121.0;

  const NetworkSummary summary = judge_network(links, names);

  EXPECT_TRUE(summary.slow_hosts.empty());
  EXPECT_EQ(summary.suspects, (Pairs{{0, 5}, {1, 4}}));
  ASSERT_EQ(summary.warnings.size(), 2U);
  const std::string both = summary.warnings[0] + summary.warnings[1];
  EXPECT_TRUE(test::mentions(
      both,
      {"the network between h1 and h4 is slow: 0.49 GB/s and 20 µs, the median pair has 1 GB/s and 20 µs",
       "the network between h0 and h5 is late: 1 GB/s and 121 µs"}));
}

TEST(NetworkSummary, RepeatsSomeSuspectsAtATimeAndAllInTurn) {
  Pairs many;
  for (int b = 1; b < 9; ++b) many.emplace_back(0, b);

  EXPECT_EQ(pairs_to_repeat({}, 0), Pairs{});
  EXPECT_EQ(pairs_to_repeat({{0, 2}, {1, 2}}, 1), (Pairs{{0, 2}, {1, 2}}));
  EXPECT_EQ(pairs_to_repeat(many, 0), (Pairs{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 6}}));
  EXPECT_EQ(pairs_to_repeat(many, 1), (Pairs{{0, 7}, {0, 8}, {0, 1}, {0, 2}, {0, 3}, {0, 4}}));
}

TEST(NetworkSummary, CountsTheBestOfEachFigure) {
  struct Case {
    LinkFigures first, again, best;
  };
  for (const Case& c : {Case{{0, 1, 20, 2e8}, {0, 1, 30, 4e8}, {0, 1, 20, 4e8}},
                        Case{{0, 1, 30, 4e8}, {0, 1, 20, 2e8}, {0, 1, 20, 4e8}},
                        Case{{0, 1, 30, 4e8}, {0, 2, 20, 9e8}, {0, 1, 30, 4e8}}}) {
    std::vector<LinkFigures> links = {c.first};

    keep_better(links, {c.again});

    EXPECT_EQ(links[0].latency_us, c.best.latency_us);
    EXPECT_EQ(links[0].bytes_per_s, c.best.bytes_per_s);
  }
}

/// What is said at last of three hosts of which h2 has these links in repetition after repetition, GB/s.
std::vector<std::string> said_of(const std::vector<std::pair<double, double>>& rates) {
  std::vector<LinkFigures> links = even(3);
  link_of(links, 0, 2).bytes_per_s = rates[0].first * 1e9;
  link_of(links, 1, 2).bytes_per_s = rates[0].second * 1e9;
  for (std::size_t turn = 1; turn < rates.size(); ++turn) {
    std::vector<LinkFigures> again;
    for (const auto& [a, b] :
         pairs_to_repeat(judge_network(links, names).suspects, static_cast<int>(turn) - 1))
      again.push_back({a, b, 20.0, 1e9 * (a == 0 ? rates[turn].first : rates[turn].second)});
    keep_better(links, again);
  }
  return judge_network(links, names).warnings;
}

TEST(NetworkSummary, IsPatientWithBusyHosts) {
  using Rates = std::vector<std::pair<double, double>>;
  const Rates once_busy = {{0.4, 0.3}, {0.9, 0.5}};
  const Rates long_busy = {{0.4, 0.3}, {0.45, 0.4}, {0.3, 0.2}, {0.7, 0.4}, {0.2, 0.8}};
  const Rates one_link = {{0.9, 0.4}, {0.1, 0.3}, {0.1, 0.6}};
  const Rates slow = {{0.4, 0.3}, {0.4, 0.3}, {0.3, 0.4}, {0.4, 0.4}, {0.2, 0.4}, {0.4, 0.4}};

  EXPECT_EQ(said_of(once_busy), std::vector<std::string>{});
  EXPECT_EQ(said_of(long_busy), std::vector<std::string>{});
  EXPECT_EQ(said_of(one_link), std::vector<std::string>{});
  ASSERT_EQ(said_of(slow).size(), 1U);
  EXPECT_EQ(said_of(slow)[0].find("the network of h2 is slow: at most 0.4 GB/s to any host"), 0U);
}

TEST(NetworkSummary, LeavesSmallDifferencesAlone) {
  std::vector<LinkFigures> links = even(4);
  link_of(links, 0, 1).bytes_per_s = 5.1e8;
  link_of(links, 0, 2).bytes_per_s = 9e9;
  link_of(links, 1, 3).latency_us = 110.0;  // five times, but not 0.1 ms more

  EXPECT_EQ(judge_network(links, names).suspects, Pairs{});
}

}  // namespace
}  // namespace flotilla::mpi
