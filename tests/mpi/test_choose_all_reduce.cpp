// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/choose_all_reduce.hpp"
#include "tests/mpi/all_reduces.hpp"
#include "tests/mpi/on_all_ranks.hpp"
#include "tests/support/within.hpp"

namespace flotilla::mpi {
namespace {

/// Takes a time of its own on one rank.
class Pausing final : public Collectives {
 public:
  explicit Pausing(std::chrono::microseconds pause) : pause_(pause) {}
  int ranks() const override { return 1; }
  void all_reduce(DeviceSpan<float>, CallSite) override {
    ++calls;
    std::this_thread::sleep_for(pause_);
  }
  std::size_t sent_bytes(std::size_t) const override { return 0; }

  int calls = 0;

 private:
  std::chrono::microseconds pause_;
};

using ChooseAllReduce = OnAllRanks;

TEST_F(ChooseAllReduce, TakesTheOneWhoseSlowestRankIsFastest) {
  // The first is slow on one rank only; to all others it would be the best choice.
  Pausing first(std::chrono::milliseconds(world.rank() == world.size() - 1 ? 100 : 0));
  Pausing second(std::chrono::milliseconds(10));
  const std::array candidates = {AllReduceCandidate{"uneven", first}, AllReduceCandidate{"even", second}};
  std::vector<float> data(100'000);
  const std::array buckets = {device_span(std::span(data).first(40'000)),
                              device_span(std::span(data).last(60'000))};

  const AllReduceChoice choice = choose_all_reduce(world, candidates, buckets);

  EXPECT_EQ(choice.winner, 1U);
  EXPECT_EQ(choice.name(), "even");
  EXPECT_EQ(first.calls, second.calls);
  EXPECT_GE(choice.step_us[0], 200e3);
  EXPECT_GE(choice.step_us[1], 20e3);
  const double here = choice.step_us[0];
  for (const double there : world.all_gather(std::span(&here, 1))) EXPECT_EQ(here, there);
}

TEST_F(ChooseAllReduce, KeepsTheFirstUnlessALaterOneIsFasterByATenth) {
  EXPECT_EQ(clearly_fastest(std::array{100.0}), 0U);
  EXPECT_EQ(clearly_fastest(std::array{100.0, 100.0}), 0U);
  EXPECT_EQ(clearly_fastest(std::array{100.0, 91.0}), 0U);
  EXPECT_EQ(clearly_fastest(std::array{100.0, 89.0}), 1U);
  EXPECT_EQ(clearly_fastest(std::array{100.0, 91.0, 89.0}), 2U);
  EXPECT_EQ(clearly_fastest(std::array{100.0, 89.0, 85.0}), 1U);  // no tenth below the second
}

TEST_F(ChooseAllReduce, MeasuresEverySizeOnceAndCountsItsBuckets) {
  Pausing only(std::chrono::milliseconds(1));
  const std::array candidates = {AllReduceCandidate{"only", only}};
  std::vector<float> data(100'000);
  const auto all = device_span(data);
  const std::array buckets = {all.subspan(0, 30'000), all.subspan(30'000, 30'000),
                              all.subspan(60'000, 40'000)};

  const AllReduceChoice choice = choose_all_reduce(world, candidates, buckets);

  ASSERT_EQ(choice.sizes.size(), 2U);
  EXPECT_EQ(choice.sizes[0].floats, 30'000U);
  EXPECT_EQ(choice.sizes[0].buckets, 2U);
  EXPECT_EQ(choice.sizes[1].floats, 40'000U);
  EXPECT_EQ(choice.sizes[1].buckets, 1U);
  EXPECT_TRUE(test::within_double_roundings(choice.step_us[0],
                                            2 * choice.bucket_us[0][0] + choice.bucket_us[0][1], 4));
}

TEST_F(ChooseAllReduce, LeavesZerosAsTheyAre) {
  SharedStorage storage(world, 20'000);
  const auto flat = make_mpi_all_reduce(world);
  const auto shared = make_shared_memory_all_reduce(world, storage);
  const auto grouped = make({.algorithm = "hierarchical", .ranks_per_group = 1}, world, storage);
  const std::array candidates = {AllReduceCandidate{"mpi", *flat},
                                 AllReduceCandidate{"shared-memory", *shared},
                                 AllReduceCandidate{"hierarchical", *grouped}};
  const std::array buckets = {device_span(storage.mine().first(12'000)),
                              device_span(storage.mine().last(8000))};

  const AllReduceChoice choice = choose_all_reduce(world, candidates, buckets);

  EXPECT_EQ(choice.names, (std::vector<std::string>{"mpi", "shared-memory", "hierarchical"}));
  for (const float x : storage.mine()) ASSERT_EQ(x, 0.0F);
}

TEST_F(ChooseAllReduce, PrintsALinePerCandidate) {
  const AllReduceChoice choice{
      .sizes = {{.floats = 1 << 20, .buckets = 3}, {.floats = 1 << 18, .buckets = 1}},
      .names = {"mpi", "hierarchical"},
      .bucket_us = {{5000, 2000}, {4000, 1000}},
      .step_us = {17'000, 13'000},
      .winner = 1};

  EXPECT_EQ(choice.table(),
            (std::vector<std::string>{
                "mpi              17.000 ms a step: 3 × 4 MiB in 5.000 ms, 1 × 1 MiB in 2.000 ms",
                "hierarchical     13.000 ms a step: 3 × 4 MiB in 4.000 ms, 1 × 1 MiB in 1.000 ms (chosen)"}));
}

TEST_F(ChooseAllReduce, NeedsCandidatesAndBuckets) {
  EXPECT_THROW(choose_all_reduce(world, {}, {}), InternalError);
}

}  // namespace
}  // namespace flotilla::mpi
