// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"

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
struct NetworkSummary {
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
NetworkSummary judge_network(const std::vector<LinkFigures>& links, const std::vector<std::string>& hosts);

/// The suspects to measure once more in repetition `turn`: a limited number, in turn.
std::vector<HostPair> pairs_to_repeat(const std::vector<HostPair>& suspects, int turn);

/// Keeps the better of two measurements of a link: other load on the hosts only makes figures worse.
void keep_better(std::vector<LinkFigures>& links, const std::vector<LinkFigures>& again);

/// Measurements of the network between the hosts.
struct NetworkReport {
  NetworkSummary summary;
  int hosts = 0;
  std::size_t pairs = 0;  ///< Number of pairs of hosts that were measured
  double seconds = 0.0;
};

/// Collective, with two hosts or more. One rank of each host measures latency and bandwidth to others, in
/// pairs, for about half a second whatever their number; outliers are measured again, alone, up to five times
/// or for another second. The other ranks sleep meanwhile. The call hangs if a link does.
/// @param beat called before each round, with its number
/// @returns rank 0's report, on every rank
NetworkReport check_network(const Communicator& world, const std::vector<Place>& places,
                            const std::function<void(int)>& beat);

}  // namespace flotilla::mpi
