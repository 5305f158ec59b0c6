// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace flotilla::mpi {

/// The measurements between hosts a and b.
struct LinkFigures {
  int a = 0;
  int b = 0;                 ///< a < b
  double latency_us = 0.0;   ///< Half a round trip of one byte
  double bytes_per_s = 0.0;  ///< Each way, both ways at once
};

using HostPair = std::pair<int, int>;  ///< first < second

/// The pairs of round `round` of a schedule in which each of `hosts` is paired with each other once, and at
/// most once in a round: the circle method for round-robin tournaments. There are tournament_rounds(hosts) of
/// them.
std::vector<HostPair> tournament_round(int hosts, int round);
int tournament_rounds(int hosts);

/// The rounds to measure: all of them, or `most` spread evenly over them, so that time does not grow with
/// hosts.
std::vector<int> rounds_to_play(int hosts, int most);

/// The outliers of the network.
struct NetworkVerdict {
  double median_latency_us = 0.0;
  double median_bytes_per_s = 0.0;
  LinkFigures slowest;             ///< By bytes_per_s
  std::vector<int> slow_hosts;     ///< Hosts to which every link is slow
  std::vector<HostPair> suspects;  ///< Links that are slow or late, those of slow hosts included
  std::vector<std::string> warnings;
};

/// A pure function. A link is slow with less than half of the bytes per second of the median link, late with
/// more than five times its latency and 0.1 ms more. A host is slow if its best link has less than half of
/// what the median host's best link has: links to it are left out of the medians.
/// @param links at least one; with two hosts there is no outlier
NetworkVerdict judge_network(const std::vector<LinkFigures>& links, const std::vector<std::string>& hosts);

/// The suspects to measure once more in repetition `turn`: a limited number, in turn.
std::vector<HostPair> pairs_to_repeat(const std::vector<HostPair>& suspects, int turn);

/// Keeps the better of two measurements of a link: other load on the hosts only makes figures worse.
void keep_better(std::vector<LinkFigures>& links, const std::vector<LinkFigures>& again);

}  // namespace flotilla::mpi
