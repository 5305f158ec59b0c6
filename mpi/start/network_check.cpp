// SPDX-License-Identifier: Apache-2.0
#include "mpi/start/network_check.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "kernels/error.hpp"
#include "kernels/median.hpp"
#include "mpi/core/clock.hpp"
#include "mpi/core/host_lines.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr double slow_share = 0.5;
constexpr double late_factor = 5.0;
constexpr double late_by_us = 100.0;
constexpr std::size_t max_links_told = 3;
constexpr std::size_t max_repeated = 6;  // in one turn

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

constexpr double budget_s = 0.5;
constexpr double longest_round_s = 0.06;
constexpr int max_rounds = 15;
constexpr int max_repetitions = 5;
constexpr double longest_repetitions_s = 1.0;
constexpr int warm_round_trips = 3;
constexpr int round_trips = 15;
constexpr std::int64_t first_bytes = std::int64_t{64} << 10;
constexpr std::int64_t min_meaningful_bytes = std::int64_t{512} << 10;  // smaller messages are sent eagerly
constexpr double longest_small_s = 0.2;
constexpr std::int64_t max_bytes = std::int64_t{4} << 20;
constexpr int tag = 1;

/// The link between this host's rank and that of another.
class Link {
 public:
  Link(const Communicator& leaders, int peer, std::vector<std::byte>& sent, std::vector<std::byte>& received)
      : comm_(NativeHandle::of(leaders)),
        peer_(peer),
        leads_(leaders.rank() < peer),
        sent_(sent),
        received_(received) {}

  double latency_us() {
    for (int i = 0; i < warm_round_trips; ++i) round_trip();  // the first one connects
    std::array<double, round_trips> times{};
    for (double& time : times) {
      const double begin = now_s();
      round_trip();
      time = now_s() - begin;
    }
    std::ranges::nth_element(times, times.begin() + round_trips / 2);
    return times[round_trips / 2] / 2 * 1e6;
  }

  /// Doubles the size as long as that fits into the time left, which is longer for small messages.
  double bytes_per_s(double patience_s) {
    const double begin = now_s();
    double rate = 0.0;
    // The lower rank decides about the next round, and sends the decision with the bytes of this one.
    for (std::int64_t bytes = first_bytes, next = 0; bytes > 0; bytes = next) {
      grow(bytes);
      const double start = now_s();
      exchange(bytes);
      const double took = now_s() - start;
      rate = static_cast<double>(bytes) / took;
      next = std::min(2 * bytes, max_bytes);
      const double patience =
          next <= min_meaningful_bytes ? std::max(patience_s, longest_small_s) : patience_s;
      const double left = patience - (now_s() - begin);
      if (static_cast<double>(next) / rate > left) next = 0;
      pass_on(next);
    }
    return rate;
  }

 private:
  void round_trip() {
    std::byte byte{};
    if (leads_) send(&byte, 1);
    receive(&byte, 1);
    if (!leads_) send(&byte, 1);
  }
  void send(const std::byte* data, int bytes) {
    check(MPI_Send(data, bytes, MPI_BYTE, peer_, tag, comm_), "MPI_Send");
  }
  void receive(std::byte* data, int bytes) {
    check(MPI_Recv(data, bytes, MPI_BYTE, peer_, tag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
  }
  void exchange(std::int64_t bytes) {
    const int count = static_cast<int>(bytes);
    check(MPI_Sendrecv(sent_.data(), count, MPI_BYTE, peer_, tag, received_.data(), count, MPI_BYTE, peer_,
                       tag, comm_, MPI_STATUS_IGNORE),
          "MPI_Sendrecv");
  }
  void pass_on(std::int64_t& value) {
    if (leads_) {
      check(MPI_Send(&value, 1, MPI_INT64_T, peer_, tag, comm_), "MPI_Send");
    } else {
      check(MPI_Recv(&value, 1, MPI_INT64_T, peer_, tag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    }
  }
  void grow(std::int64_t bytes) {
    const auto size = static_cast<std::size_t>(bytes);
    if (sent_.size() >= size) return;
    sent_.resize(size);
    received_.resize(size);
  }

  MPI_Comm comm_;
  int peer_;
  bool leads_;
  std::vector<std::byte>& sent_;
  std::vector<std::byte>& received_;
};

/// Measures links between the leaders of the hosts, whose ranks are the indices of the hosts.
class PairwiseLinkTest {
 public:
  PairwiseLinkTest(const Communicator& leaders, const std::function<void(int)>& beat)
      : leaders_(leaders), beat_(beat) {}

  std::vector<LinkFigures> run() {
    const std::vector<int> rounds = rounds_to_play(leaders_.size(), max_rounds);
    const double patience_s = std::min(longest_round_s, budget_s / static_cast<double>(rounds.size()));
    std::vector<LinkFigures> all;
    for (const int round : rounds)
      for (const LinkFigures& link : meet(tournament_round(leaders_.size(), round), patience_s))
        all.push_back(link);
    return all;
  }

  /// Measures outliers again, one pair after another, so that they do not disturb each other: until there is
  /// none, for busy hosts make links look slow, or it has taken its time. Every leader has the same figures.
  void repeat(std::vector<LinkFigures>& links, const std::vector<std::string>& names) {
    const double begin = now_s();
    for (int turn = 0; turn < max_repetitions; ++turn) {
      const auto pairs = pairs_to_repeat(judge_network(links, names).suspects, turn);
      std::int64_t go_on = !pairs.empty() && (turn == 0 || now_s() - begin < longest_repetitions_s) ? 1 : 0;
      leaders_.broadcast(std::span(&go_on, 1));
      if (go_on == 0) return;
      for (const HostPair& pair : pairs) keep_better(links, meet({pair}, longest_round_s));
    }
  }

 private:
  std::vector<LinkFigures> meet(const std::vector<HostPair>& pairs, double patience_s) {
    beat_(++meetings_);
    leaders_.barrier();
    LinkFigures mine;
    for (const auto& [a, b] : pairs) {
      if (leaders_.rank() != a && leaders_.rank() != b) continue;
      Link link(leaders_, leaders_.rank() == a ? b : a, sent_, received_);
      mine = {.a = a, .b = b, .latency_us = link.latency_us(), .bytes_per_s = link.bytes_per_s(patience_s)};
    }
    const std::array<double, 2> figures{mine.latency_us, mine.bytes_per_s};
    const std::vector<double> all = leaders_.all_gather(std::span<const double>(figures));
    std::vector<LinkFigures> links;
    for (const auto& [a, b] : pairs) {
      const auto at = 2 * static_cast<std::size_t>(a);
      links.push_back({.a = a, .b = b, .latency_us = all[at], .bytes_per_s = all[at + 1]});
    }
    return links;
  }

  const Communicator& leaders_;
  const std::function<void(int)>& beat_;
  int meetings_ = 0;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
};

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
  const std::size_t begin = static_cast<std::size_t>(turn) * max_repeated;
  for (std::size_t i = 0; i < std::min(suspects.size(), max_repeated); ++i)
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

NetworkSummary judge_network(const std::vector<LinkFigures>& links, const std::vector<std::string>& hosts) {
  require(!links.empty(), "a network without links is judged");
  NetworkSummary summary;
  summary.slow_hosts = find_slow_hosts(links);
  std::vector<LinkFigures> usual;
  for (const LinkFigures& link : links)
    if (std::ranges::count(summary.slow_hosts, link.a) + std::ranges::count(summary.slow_hosts, link.b) == 0)
      usual.push_back(link);
  if (usual.empty()) usual = links;
  summary.median_latency_us = median_of(usual, &LinkFigures::latency_us);
  summary.median_bytes_per_s = median_of(usual, &LinkFigures::bytes_per_s);
  summary.slowest = *std::ranges::min_element(links, {}, &LinkFigures::bytes_per_s);

  const auto name = [&](int host) { return hosts[static_cast<std::size_t>(host)]; };
  for (const int host : summary.slow_hosts) {
    double best = 0;
    for (const LinkFigures& link : links) {
      if (link.a != host && link.b != host) continue;
      best = std::max(best, link.bytes_per_s);
      summary.suspects.emplace_back(link.a, link.b);
    }
    summary.warnings.push_back(cat("the network of ", name(host), " is slow: at most ", rate(best),
                                   " to any host, between the others ", rate(summary.median_bytes_per_s),
                                   "; every step waits for it: look at its cable, port and link speed "
                                   "(ethtool), or leave the host out (mpirun --host, srun --exclude=",
                                   name(host), ")"));
  }
  std::size_t told = 0;
  std::size_t found = 0;
  for (const LinkFigures& link : usual) {
    const bool slow = link.bytes_per_s < slow_share * summary.median_bytes_per_s;
    const bool late = link.latency_us > late_factor * summary.median_latency_us &&
                      link.latency_us > summary.median_latency_us + late_by_us;
    if (!slow && !late) continue;
    ++found;
    summary.suspects.emplace_back(link.a, link.b);
    if (told++ < max_links_told)
      summary.warnings.push_back(cat(
          "the network between ", name(link.a), " and ", name(link.b), " is ", slow ? "slow: " : "late: ",
          rate(link.bytes_per_s), " and ", short_text(link.latency_us), " µs, the median pair has ",
          rate(summary.median_bytes_per_s), " and ", short_text(summary.median_latency_us),
          " µs; every step waits for it: look at the switches between them, or leave one of the two out"));
  }
  if (found > max_links_told)
    summary.warnings.push_back(cat("the network between ", found - max_links_told,
                                   " more pairs of hosts stands out in the same way"));
  std::ranges::sort(summary.suspects);
  const auto twice = std::ranges::unique(summary.suspects);
  summary.suspects.erase(twice.begin(), twice.end());
  return summary;
}

NetworkReport check_network(const Communicator& world, const std::vector<Place>& places,
                            const std::function<void(int)>& beat) {
  const double begin = now_s();
  const std::vector<std::string> names = names_of_hosts(places);
  require(names.size() > 1, "the network of one host is checked");
  const bool leads = places[static_cast<std::size_t>(world.rank())].local_rank == 0;
  const Communicator peers = world.split(leads ? 0 : 1);
  std::vector<double> flat;  // a, b, latency, bytes a second
  if (leads) {
    PairwiseLinkTest link_test(peers, beat);
    std::vector<LinkFigures> links = link_test.run();
    link_test.repeat(links, names);
    for (const LinkFigures& link : links)
      for (const double value :
           {static_cast<double>(link.a), static_cast<double>(link.b), link.latency_us, link.bytes_per_s})
        flat.push_back(value);
  }
  world.patient_barrier();
  auto size = static_cast<std::int64_t>(flat.size());
  world.broadcast(std::span(&size, 1));
  flat.resize(static_cast<std::size_t>(size));
  world.broadcast(std::span<double>(flat));
  std::vector<LinkFigures> links;
  for (std::size_t at = 0; at < flat.size(); at += 4)
    links.push_back({.a = static_cast<int>(flat[at]),
                     .b = static_cast<int>(flat[at + 1]),
                     .latency_us = flat[at + 2],
                     .bytes_per_s = flat[at + 3]});
  return {.summary = judge_network(links, names),
          .hosts = static_cast<int>(names.size()),
          .pairs = links.size(),
          .seconds = now_s() - begin};
}

}  // namespace flotilla::mpi
