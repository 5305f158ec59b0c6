// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

/// The seconds of each measured rank's steps, in their order and equally many: without waiting for others or
/// for input, of ranks that ran side by side.
using MeasuredSteps = std::vector<std::vector<double>>;

/// The mean time until the last of `ranks` ranks has done `steps` steps of its own: the expected maximum over
/// ranks of sums of steps that followed one another. Measured ranks are taken together, with what slows all
/// of them at a time; for more ranks, their maximum is drawn independently as often as needed: that of k
/// draws from v₁ ≤ … ≤ vₙ has the mean Σ vᵢ ((i/n)ᵏ − ((i−1)/n)ᵏ) (David & Nagaraja, Order Statistics, 2003).
double slowest_s(const MeasuredSteps& measured, int ranks, std::int64_t steps);

/// The mean time of a step, of as many of the measured ranks as slowest_s() takes.
double mean_s(const MeasuredSteps& measured, int ranks);

/// A row of `flotilla bench all-reduce`.
struct MeasuredSum {
  std::string algorithm;
  int hosts = 1;
  int ranks = 1;
  double bytes = 0.0;
  double seconds = 0.0;
};

/// Ranks on hosts, neighbours on the same one.
struct RankGrid {
  int hosts = 1;
  int ranks_per_host = 1;

  int ranks() const { return hosts * ranks_per_host; }
};

/// What sums over ranks and exchanges with servers depend on.
struct Interconnect {
  std::vector<MeasuredSum> measured{};
  /// The connection of each host, both ways at the same time: a message takes latency_s + bytes /
  /// bytes_per_s. 0: not known
  double latency_s = 0.0;
  double bytes_per_s = 0.0;
  /// The time of messages both ways at a time between two ranks, by that of one of them. With Open MPI 4 over
  /// TCP 2 where a rank has several partners.
  double both_ways = 1.0;
  double wire_share = 1.0;  ///< Of the bytes that travel between hosts: 0.5 with a half wire
};

/// The time of an all-reduce, "mpi" or "hierarchical": as measured, where that was with as many hosts and
/// ranks; else what was measured in one host with as many ranks, and between H hosts (Thakur, Rabenseifner &
/// Gropp 2005) in halves, 2 (H − 1) / H of the bytes out of each host, whose ranks share its connection, by
/// 2 ⌈log₂ H⌉ messages one after another (of "hierarchical" 2 ⌈log₄ H⌉: mpi/all_reduce/sum_tree.hpp); by MPI
/// small arrays whole, ⌈log₂ H⌉ times by each rank. Where H is no power of two, MPI first adds what pairs of
/// ranks have (half of the bytes both ways, then half one way), and sends the second ones the sum at the end.
/// Messages of "hierarchical", and those of servers, begin at once and lose half of what both_ways loses.
/// @throws UserError naming the measurement that is missing
double all_reduce_s(const Interconnect& on, std::string_view algorithm, const RankGrid& grid, double bytes);

/// The time of a push of `bytes` by each worker and its answer to it, parts of which come back while others
/// are pushed. Every second rank is a server of an equal share of the bytes.
double exchange_s(const Interconnect& on, const RankGrid& grid, double bytes);

/// The time for which training waits for sums of buckets, which are made one after another as backward
/// completes them, in proportion to their bytes. @param buckets their bytes, in the order of backward
/// @param backward_s 0: the sums begin after it
double exposed_s(std::span<const double> buckets, double backward_s,
                 const std::function<double(double bytes)>& sum_s);

}  // namespace flotilla
