// SPDX-License-Identifier: Apache-2.0
#include "src/forecast/forecast.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Open MPI 4 and 5 send larger arrays in halves (coll_tuned_decision_fixed.c, 4 to 63 ranks).
constexpr double most_whole_bytes = 8192.0;

std::span<const std::vector<double>> taken(const MeasuredSteps& measured, int ranks) {
  require(!measured.empty() && !measured.front().empty() && ranks > 0, "a forecast without times of steps");
  return std::span(measured).first(std::min(measured.size(), static_cast<std::size_t>(ranks)));
}

/// By its size between two measured ones on the line through them; below all the smallest one's time, above
/// all the largest one's rate. Nothing if no such sum was measured.
std::optional<double> measured_s(const Interconnect& on, std::string_view algorithm, const RankGrid& grid,
                                 double bytes) {
  const MeasuredSum* below = nullptr;
  const MeasuredSum* above = nullptr;
  for (const MeasuredSum& sum : on.measured) {
    if (sum.algorithm != algorithm || sum.hosts != grid.hosts || sum.ranks != grid.ranks()) continue;
    const MeasuredSum*& nearest = sum.bytes < bytes ? below : above;
    if (nearest == nullptr || std::abs(sum.bytes - bytes) < std::abs(nearest->bytes - bytes)) nearest = &sum;
  }
  if (below == nullptr) return above == nullptr ? std::nullopt : std::optional(above->seconds);
  if (above == nullptr) return below->seconds * bytes / below->bytes;
  return std::lerp(below->seconds, above->seconds, (bytes - below->bytes) / (above->bytes - below->bytes));
}

/// As both_ways, where messages with several ranks begin at once: while one waits, another has the way free.
double at_once(const Interconnect& on) {
  return (1.0 + on.both_ways) / 2.0;
}

void check_network(const Interconnect& on) {
  if (on.bytes_per_s <= 0.0)
    throw UserError(
        "nothing is known of the network between hosts: give --network LATENCY_US,GBIT_S, as --network "
        "30,10");
}

}  // namespace

double mean_s(const MeasuredSteps& measured, int ranks) {
  double sum = 0.0;
  for (const auto& times : taken(measured, ranks)) sum = std::accumulate(times.begin(), times.end(), sum);
  return sum / static_cast<double>(taken(measured, ranks).size() * measured.front().size());
}

double slowest_s(const MeasuredSteps& measured, int ranks, std::int64_t steps) {
  const std::size_t count = measured.front().size();
  const auto rounds = static_cast<double>(steps / static_cast<std::int64_t>(count));
  const auto rest = static_cast<std::size_t>(steps) % count;
  // The sum that begins at each measured step; after the last one the first one follows.
  std::vector<double> slowest(count);
  for (const auto& times : taken(measured, ranks)) {
    double sum = rounds * std::accumulate(times.begin(), times.end(), 0.0);
    for (std::size_t i = 0; i < rest; ++i) sum += times[i];
    for (std::size_t begin = 0; begin < count; ++begin) {
      slowest[begin] = std::max(slowest[begin], sum);
      sum += times[(begin + rest) % count] - times[begin];
    }
  }
  std::ranges::sort(slowest);
  const double draws = ranks / static_cast<double>(taken(measured, ranks).size());
  double mean = 0.0;
  double before = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const double not_above = std::pow(static_cast<double>(i + 1) / static_cast<double>(count), draws);
    mean += slowest[i] * (not_above - before);
    before = not_above;
  }
  return mean;
}

double all_reduce_s(const Interconnect& on, std::string_view algorithm, const RankGrid& grid, double bytes) {
  if (grid.ranks() == 1) return 0.0;
  if (const auto as_measured = measured_s(on, algorithm, grid, bytes)) return *as_measured;
  const bool by_host = algorithm == "hierarchical";
  double inside_s = 0.0;
  if (grid.ranks_per_host > 1) {
    const std::string_view inside = by_host ? "shared-memory" : "mpi";
    const auto found = measured_s(on, inside, {1, grid.ranks_per_host}, bytes);
    if (!found)
      throw UserError(
          cat("no all-reduce of ", grid.ranks_per_host, " ranks on one host was measured: start ",
              "the forecast on as many, or give what bench all-reduce measured with --all-reduce"));
    inside_s = *found;
  }
  if (grid.hosts == 1) return inside_s;
  check_network(on);
  const int doublings = std::bit_width(static_cast<unsigned>(grid.hosts - 1));
  const int messages = by_host ? doublings + doublings % 2 : 2 * doublings;
  const double sent_s = bytes * on.wire_share / on.bytes_per_s;
  const double exchanged_s = sent_s * (by_host ? at_once(on) : on.both_ways);
  const auto power = static_cast<int>(std::bit_floor(static_cast<unsigned>(grid.hosts)));
  const bool folds = !by_host && grid.ranks_per_host == 1 && power < grid.hosts;
  const int halving = folds ? power : grid.hosts;
  const double folded_s = folds ? 3 * on.latency_s + exchanged_s / 2.0 + 1.5 * sent_s : 0.0;
  const double halved_s = folded_s + messages * on.latency_s + 2.0 * (halving - 1) / halving * exchanged_s;
  const double whole_s = doublings * (on.latency_s + grid.ranks_per_host * exchanged_s);
  return inside_s + (by_host || bytes > most_whole_bytes ? halved_s : std::min(halved_s, whole_s));
}

double exchange_s(const Interconnect& on, const RankGrid& grid, double bytes) {
  if (grid.hosts == 1) return 0.0;
  check_network(on);
  // Pushes go out of a host with one rank, or answers; out of others both, less what stays in the host.
  const double away = grid.ranks_per_host == 1 ? at_once(on) : grid.ranks_per_host * (1.0 - 1.0 / grid.hosts);
  return 2 * on.latency_s + away * bytes * on.wire_share / on.bytes_per_s;
}

double exposed_s(std::span<const double> buckets, double backward_s,
                 const std::function<double(double bytes)>& sum_s) {
  const double all = std::accumulate(buckets.begin(), buckets.end(), 0.0);
  double ready = 0.0;
  double end_s = 0.0;
  for (const double bytes : buckets) {
    ready += bytes;
    end_s = std::max(end_s, backward_s * ready / all) + sum_s(bytes);
  }
  return std::max(0.0, end_s - backward_s);
}

}  // namespace flotilla
