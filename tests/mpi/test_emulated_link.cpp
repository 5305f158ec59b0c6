// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/emulated_link.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "kernels/host_memory.hpp"
#include "kernels/trace.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/core/topology.hpp"
#include "tests/support/within.hpp"

// Links that are slower than the real one: when what is sent arrives, and sums that take as long.

namespace flotilla::mpi {
namespace {

constexpr std::int64_t ms = 1'000'000;

/// Milliseconds.
double arrival(EmulatedLink& link, std::int64_t begin_ms, const LinkUse& use, std::uint64_t call) {
  return static_cast<double>(link.arrival_ns(begin_ms * ms, use, call)) / ms;
}

TEST(EmulatedLink, SendsAtItsRateAfterWhatWasSentBefore) {
  EmulatedLink link({.gbit_s = 0.1, .latency_us = 500}, 1, 1);
  // A packet of 1,514 bytes has 1,448 of values, and half an answer of 66 bytes: 936,005 of values take 80
  // ms.
  EXPECT_TRUE(test::within(arrival(link, 7, {2, 936'005}, 0), 7 + 80 + 1, 1e-3));
  EXPECT_TRUE(test::within(arrival(link, 17, {1, 936'005}, 1), 7 + 160 + 0.5, 1e-3));
  EXPECT_TRUE(test::within(arrival(link, 900, {0, 0}, 2), 900, 1e-3));
}

TEST(EmulatedLink, TakesABurstAfterARest) {
  EmulatedLink link({.gbit_s = 0.1, .burst_kb = 500'000 / 1024.0}, 1, 1);  // 40 ms of the rate
  EXPECT_TRUE(test::within(arrival(link, 0, {1, 936'005}, 0), 40, 1e-3));
  EXPECT_TRUE(test::within(arrival(link, 40, {1, 936'005}, 1), 120, 1e-3));  // half of it was filled again
  EXPECT_TRUE(test::within(arrival(link, 1000, {1, 93'601}, 2), 1000, 1e-3));
}

TEST(EmulatedLink, TakesLongerForBothWaysAtATime) {
  EmulatedLink link({.gbit_s = 0.1, .both_ways = 1.5}, 1, 1);
  EXPECT_TRUE(test::within(arrival(link, 0, {1, 936'005}, 0), 120, 1e-3));
}

TEST(EmulatedLink, IsSharedInEqualParts) {
  EmulatedLink link({.gbit_s = 0.1}, 1, 2);
  EXPECT_TRUE(test::within(arrival(link, 0, {1, 936'005}, 0), 160, 1e-3));
}

TEST(EmulatedLink, AddsTheSameJitterToTheSameCallOfASeed) {
  const auto latencies = [](std::uint64_t seed) {
    EmulatedLink link({.gbit_s = 1.0, .latency_us = 1000, .jitter = 0.5}, seed, 1);
    std::vector<std::int64_t> all;
    for (std::uint64_t call = 0; call < 20'000; ++call) all.push_back(link.arrival_ns(0, {1, 0}, call));
    return all;
  };
  const std::vector<std::int64_t> drawn = latencies(3);
  EXPECT_EQ(latencies(3), drawn);
  EXPECT_NE(latencies(4), drawn);
  double sum = 0;
  for (const std::int64_t each : drawn) {
    ASSERT_GE(each, 1 * ms);
    sum += static_cast<double>(each);
  }
  EXPECT_TRUE(test::within(sum / 20'000 / ms, 1.5, 0.02));
}

/// An all-reduce that takes no time and sends as many bytes as it is given.
class NoSums final : public Collectives {
 public:
  explicit NoSums(std::size_t bytes) : bytes_(bytes) {}
  int ranks() const override { return 1; }
  void all_reduce(DeviceSpan<float>, CallSite) override {}
  std::size_t sent_bytes(std::size_t) const override { return bytes_; }

 private:
  std::size_t bytes_;
};

TEST(EmulatedLink, KnowsWhatAnAllReduceAsks) {
  const auto use = [](int ranks, std::size_t bytes, Wire wire = Wire::float32,
                      SumOrder order = SumOrder::any) {
    const NoSums sums(2 * static_cast<std::size_t>(ranks - 1) * bytes / static_cast<std::size_t>(ranks));
    const LinkUse asked = link_use(ranks, sums, bytes / sizeof(float), wire, order);
    return std::pair(asked.messages, asked.bytes);
  };
  EXPECT_EQ(use(2, 4000), std::pair(2, std::size_t{4000}));
  EXPECT_EQ(use(4, 4000), std::pair(4, std::size_t{6000}));
  // Large messages are announced first.
  EXPECT_EQ(use(4, 480'000), std::pair(12, std::size_t{720'000}));
  // A pair reduces by halves, sends one on, takes part in the exchange of two, and gets the result.
  EXPECT_EQ(use(3, 480'000), std::pair(15, std::size_t{1'440'000}));
  EXPECT_EQ(use(4, 4000, Wire::float32, SumOrder::tree), std::pair(2, std::size_t{6000}));
  EXPECT_EQ(use(4, 4000, Wire::int8), std::pair(2, std::size_t{6000}));
}

class SlowedAllReduce : public testing::TestWithParam<int> {
 protected:
  static constexpr std::size_t count = 50'000;
  static constexpr LinkModel slow{.gbit_s = 0.1, .latency_us = 1000};

  /// Sums on this rank, with the time from the last rank's beginning to this one's end.
  struct Slowed {
    std::vector<float> sum;
    std::int64_t ns = 0;
  };
  Slowed add(const LinkModel& model) {
    const int ranks_per_group = std::min(GetParam(), world_.size());
    const AllReduceKind& kind = all_reduce_kind(GetParam() == 0 ? "mpi" : "hierarchical");
    AllReduceSite site = find_site(find_topology(world_), ranks_per_group);
    EmulatedLink link(model, 1, std::max(1, ranks_per_group));
    SharedStorage storage(host_, count);
    auto sums = kind.make({.site = site,
                           .world = world_,
                           .host = host_,
                           .link = model.is_on() ? &link : nullptr,
                           .window = &storage});
    for (std::size_t i = 0; i < count; ++i)
      storage.mine()[i] = 0.1F * static_cast<float>(i) + static_cast<float>(world_.rank());
    if (world_.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::int64_t begin = trace::now_ns();
    sums->all_reduce(device_span(storage.mine()));
    const std::int64_t end = trace::now_ns();
    world_.all_reduce(std::span(&begin, 1), Op::max);
    EXPECT_TRUE(sums->missing_ranks().empty());
    return {{storage.mine().begin(), storage.mine().end()}, end - begin};
  }

  Communicator world_ = Communicator::world();
  Communicator host_ = world_.split_by_host();
};
INSTANTIATE_TEST_SUITE_P(RanksPerGroup, SlowedAllReduce, testing::Values(0, 2));

TEST_P(SlowedAllReduce, HasTheBitsOfTheOtherAndTakesTheTimeOfTheLink) {
  const Slowed expected = add({});

  const Slowed found = add(slow);

  EXPECT_EQ(found.sum, expected.sum);
  const int hosts = GetParam() == 0 ? world_.size() : (world_.size() + 1) / 2;
  if (hosts == 1 || world_.size() % std::max(1, GetParam()) != 0) return;
  // 200,000 bytes, of each of which 2 (n − 1) / n leave a host.
  const auto wire_ns = static_cast<std::int64_t>(200'000.0 * 80 * 2 * (hosts - 1) / hosts);
  EXPECT_GE(found.ns, wire_ns + 2 * ms);
}

TEST_P(SlowedAllReduce, NamesTheRankThatIsMissing) {
  if (GetParam() != 0 || world_.size() == 1) GTEST_SKIP() << "a test of the flat one";
  EmulatedLink link(slow, 1, 1);
  const auto sums =
      make_slowed_all_reduce(world_, make_mpi_all_reduce(world_), &link, Wire::float32, SumOrder::any);
  std::vector<float> data(7, 1.0F);
  std::vector<int> missing;
  const bool is_late = world_.rank() == world_.size() - 1;
  std::thread watch;
  if (is_late) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  } else {
    watch = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      missing = sums->missing_ranks();
    });
  }
  sums->all_reduce(device_span(std::span(data)));
  if (watch.joinable()) watch.join();

  EXPECT_EQ(missing, is_late ? std::vector<int>() : std::vector<int>{world_.size() - 1});
  EXPECT_EQ(data[3], static_cast<float>(world_.size()));
}

TEST(EmulatedLinks, RefuseAllReducesThatTakeNoLink) {
  std::vector<Place> places(4);
  for (int rank = 0; rank < 4; ++rank) places[static_cast<std::size_t>(rank)] = {.rank = rank};
  AllReduceSite site = find_site(places, 0);
  site.link.gbit_s = 1.0;
  EXPECT_NE(why_not(all_reduce_kind("shared-memory"), site).find("run.emulate_link exclude each other"),
            std::string::npos);
  EXPECT_NE(why_not(all_reduce_kind("nccl"), site).find("run.emulate_link exclude each other"),
            std::string::npos);
  EXPECT_NE(why_not(all_reduce_kind("hierarchical"), site).find("give strategy.ranks_per_group"),
            std::string::npos);
  EXPECT_EQ(why_not(all_reduce_kind("mpi"), site), "");
  site = find_site(places, 2);
  site.link.gbit_s = 1.0;
  EXPECT_EQ(why_not(all_reduce_kind("hierarchical"), site), "");
}

}  // namespace
}  // namespace flotilla::mpi
