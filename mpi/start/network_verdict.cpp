// SPDX-License-Identifier: Apache-2.0
#include "mpi/start/network_verdict.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

#include "kernels/error.hpp"
#include "kernels/median.hpp"
#include "mpi/core/host_lines.hpp"

namespace flotilla::mpi {

namespace {

constexpr double slow_share = 0.5;
constexpr double late_factor = 5.0;
constexpr double late_by_us = 100.0;
constexpr std::size_t most_links_told = 3;
constexpr std::size_t most_repeated = 6;  // in one turn

template <class Figure>
double median_of(const std::vector<LinkFigures>& links, Figure figure) {
  std::vector<double> values;
  for (const LinkFigures& link : links) values.push_back(link.*figure);
  return median(std::move(values));
}

std::string rate(double bytes_per_s) {
  return short_text(bytes_per_s / 1e9) + " GB/s";
}

/// The hosts whose best link is far below that of the median host.
std::vector<int> find_slow_hosts(const std::vector<LinkFigures>& links) {
  std::map<int, double> best;
  for (const LinkFigures& link : links)
    for (const int host : {link.a, link.b}) best[host] = std::max(best[host], link.bytes_per_s);
  std::vector<double> bests;
  for (const auto& [host, rate] : best) bests.push_back(rate);
  // The lower of two in the middle: two hosts that are faster do not make the others slow.
  const auto middle = bests.begin() + (std::ssize(bests) - 1) / 2;
  std::ranges::nth_element(bests, middle);
  const double usual = *middle;
  std::vector<int> slow;
  for (const auto& [host, rate] : best)
    if (rate < slow_share * usual) slow.push_back(host);
  return slow;
}

}  // namespace

int tournament_rounds(int hosts) {
  return hosts < 2 ? 0 : hosts % 2 == 0 ? hosts - 1 : hosts;
}

std::vector<HostPair> tournament_round(int hosts, int round) {
  // One host keeps its place, the others rotate; with an odd number of hosts one has no partner in a round.
  const int players = hosts + hosts % 2;
  const int circle = players - 1;
  std::vector<HostPair> pairs;
  for (int i = 0; i < players / 2; ++i) {
    const int a = i == 0 ? players - 1 : (round + i) % circle;
    const int b = (round + circle - i) % circle;
    if (std::max(a, b) < hosts) pairs.push_back(std::minmax({a, b}));
  }
  return pairs;
}

std::vector<int> rounds_to_play(int hosts, int most) {
  const int all = tournament_rounds(hosts);
  const int played = std::min(all, most);
  std::vector<int> rounds;
  for (int i = 0; i < played; ++i)
    rounds.push_back(static_cast<int>(static_cast<std::int64_t>(i) * all / played));
  return rounds;
}

std::vector<HostPair> pairs_to_repeat(const std::vector<HostPair>& suspects, int turn) {
  std::vector<HostPair> pairs;
  const std::size_t begin = static_cast<std::size_t>(turn) * most_repeated;
  for (std::size_t i = 0; i < std::min(suspects.size(), most_repeated); ++i)
    pairs.push_back(suspects[(begin + i) % suspects.size()]);
  return pairs;
}

void keep_better(std::vector<LinkFigures>& links, const std::vector<LinkFigures>& again) {
  for (const LinkFigures& figures : again)
    for (LinkFigures& link : links) {
      if (link.a != figures.a || link.b != figures.b) continue;
      link.latency_us = std::min(link.latency_us, figures.latency_us);
      link.bytes_per_s = std::max(link.bytes_per_s, figures.bytes_per_s);
    }
}

NetworkVerdict judge_network(const std::vector<LinkFigures>& links, const std::vector<std::string>& hosts) {
  require(!links.empty(), "a network without links is judged");
  NetworkVerdict verdict;
  verdict.slow_hosts = find_slow_hosts(links);
  std::vector<LinkFigures> usual;
  for (const LinkFigures& link : links)
    if (std::ranges::count(verdict.slow_hosts, link.a) + std::ranges::count(verdict.slow_hosts, link.b) == 0)
      usual.push_back(link);
  if (usual.empty()) usual = links;
  verdict.median_latency_us = median_of(usual, &LinkFigures::latency_us);
  verdict.median_bytes_per_s = median_of(usual, &LinkFigures::bytes_per_s);
  verdict.slowest = *std::ranges::min_element(links, {}, &LinkFigures::bytes_per_s);

  const auto name = [&](int host) { return hosts[static_cast<std::size_t>(host)]; };
  for (const int host : verdict.slow_hosts) {
    double best = 0;
    for (const LinkFigures& link : links) {
      if (link.a != host && link.b != host) continue;
      best = std::max(best, link.bytes_per_s);
      verdict.suspects.emplace_back(link.a, link.b);
    }
    verdict.warnings.push_back(cat("the network of ", name(host), " is slow: at most ", rate(best),
                                   " to any host, between the others ", rate(verdict.median_bytes_per_s),
                                   "; every step waits for it: look at its cable, port and link speed "
                                   "(ethtool), or leave the host out (mpirun --host, srun --exclude=",
                                   name(host), ")"));
  }
  std::size_t told = 0;
  std::size_t found = 0;
  for (const LinkFigures& link : usual) {
    const bool slow = link.bytes_per_s < slow_share * verdict.median_bytes_per_s;
    const bool late = link.latency_us > late_factor * verdict.median_latency_us &&
                      link.latency_us > verdict.median_latency_us + late_by_us;
    if (!slow && !late) continue;
    ++found;
    verdict.suspects.emplace_back(link.a, link.b);
    if (told++ < most_links_told)
      verdict.warnings.push_back(cat(
          "the network between ", name(link.a), " and ", name(link.b), " is ", slow ? "slow: " : "late: ",
          rate(link.bytes_per_s), " and ", short_text(link.latency_us), " µs, the median pair has ",
          rate(verdict.median_bytes_per_s), " and ", short_text(verdict.median_latency_us),
          " µs; every step waits for it: look at the switches between them, or leave one of the two out"));
  }
  if (found > most_links_told)
    verdict.warnings.push_back(cat("the network between ", found - most_links_told,
                                   " more pairs of hosts stands out in the same way"));
  std::ranges::sort(verdict.suspects);
  const auto twice = std::ranges::unique(verdict.suspects);
  verdict.suspects.erase(twice.begin(), twice.end());
  return verdict;
}

}  // namespace flotilla::mpi
