// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/all_reduce/bench_all_reduce.hpp"
#include "mpi/core/slices.hpp"
#include "tests/support/within.hpp"

namespace flotilla::mpi {
namespace {

std::vector<AllReduceBenchRow> measure(const AllReduceBenchOptions& options) {
  const auto world = Communicator::world();
  std::vector<AllReduceBenchRow> rows;
  bench_all_reduce(world, options, [&](const AllReduceBenchRow& row) { rows.push_back(row); });
  return rows;
}

TEST(BenchAllReduce, MeasuresEveryAlgorithmAtEverySize) {
  const std::vector<AllReduceBenchRow> rows = measure({.min_bytes = 1024, .max_bytes = 4096, .rounds = 5});

  std::set<std::string> seen;
  std::size_t halves = 0;
  for (const AllReduceBenchRow& row : rows) {
    if (row.wire == Wire::float32) seen.insert(cat(row.algorithm, row.in_place ? " " : " out ", row.bytes));
    halves += row.wire == Wire::float32 ? 0U : 1U;
  }
  const std::set<std::string> expected = {"memory-limit 1024",  "memory-limit 2048",  "memory-limit 4096",
                                          "mpi 1024",           "mpi 2048",           "mpi 4096",
                                          "shared-memory 1024", "shared-memory 2048", "shared-memory 4096",
                                          "mpi out 1024",       "mpi out 2048",       "mpi out 4096"};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(halves, 6U);  // mpi at three sizes with two wires
  EXPECT_EQ(rows.size(), expected.size() + halves);
}

TEST(BenchAllReduce, ChecksItsSumsAndAgreesOnThem) {
  const auto world = Communicator::world();

  constexpr std::size_t bytes = (mpi_all_reduce_piece + 1) * sizeof(float);  // so that "mpi" takes two pieces

  const std::vector<AllReduceBenchRow> rows =
      measure({.min_bytes = bytes, .max_bytes = bytes, .in_place_only = true, .rounds = 3});

  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[1].algorithm, "mpi-pieces");
  for (const AllReduceBenchRow& row : rows) {
    EXPECT_TRUE(row.correct) << row.algorithm;
    EXPECT_TRUE(row.in_place) << row.algorithm;
    EXPECT_GT(row.time_us, 0) << row.algorithm;
    const double n = world.size();
    EXPECT_TRUE(
        test::within_double_roundings(row.algbw_gb_s, static_cast<double>(bytes) / row.time_us / 1e3, 4));
    EXPECT_TRUE(test::within_double_roundings(row.busbw_gb_s, row.algbw_gb_s * 2 * (n - 1) / n, 4));
    double slowest = row.time_us;
    world.all_reduce(std::span(&slowest, 1), Op::max);
    EXPECT_EQ(row.time_us, slowest);
  }
}

TEST(BenchAllReduce, ComparesGroupsWiresAndCommunicators) {
  if (Communicator::world().size() == 1) GTEST_SKIP() << "needs two groups";

  const std::vector<AllReduceBenchRow> rows = measure({.min_bytes = 40'000,
                                                       .max_bytes = 40'000,
                                                       .in_place_only = true,
                                                       .rounds = 3,
                                                       .ranks_per_group = 1,
                                                       .communicators = 2});

  std::multiset<std::string> seen;
  for (const AllReduceBenchRow& row : rows) {
    EXPECT_TRUE(row.correct) << row.algorithm;
    seen.insert(cat(row.algorithm, " ", name(row.wire), " ", row.communicators));
  }
  EXPECT_EQ(seen, (std::multiset<std::string>{
                      "mpi float32 1", "mpi float32 2", "mpi float16 1", "mpi float16 2", "mpi bfloat16 1",
                      "mpi bfloat16 2", "shared-memory float32 1", "shared-memory float32 2",
                      "hierarchical float32 1", "hierarchical float32 2", "hierarchical float16 1",
                      "hierarchical float16 2", "hierarchical bfloat16 1", "hierarchical bfloat16 2",
                      "memory-limit float32 1"}));
}

TEST(BenchAllReduce, RefusesSizesThatHoldNothing) {
  EXPECT_THROW(measure({.min_bytes = 2, .max_bytes = 1024}), UserError);
  EXPECT_THROW(measure({.min_bytes = 2048, .max_bytes = 1024}), UserError);
}

TEST(BenchAllReduce, RefusesGroupsAndCommunicatorsThatCannotBe) {
  EXPECT_THROW(measure({.ranks_per_group = 100}), UserError);
  EXPECT_THROW(measure({.communicators = 0}), UserError);
}

TEST(BenchData, AddsUpExactlyAndShowsAWrongValue) {
  for (const Wire wire : {Wire::float32, Wire::float16, Wire::bfloat16}) {
    for (const int ranks : {1, 2, 7, 300}) {
      std::vector<float> sums(5000);
      std::vector<float> one(sums.size());
      for (int rank = 0; rank < ranks; ++rank) {
        fill_for_exact_sum(one, wire, rank, ranks);
        for (std::size_t i = 0; i < one.size(); ++i) sums[i] += one[i];
      }
      EXPECT_TRUE(is_exact_sum(sums, wire, ranks)) << name(wire) << " " << ranks;

      sums[4999] += 1;

      EXPECT_FALSE(is_exact_sum(sums, wire, ranks)) << name(wire) << " " << ranks;
    }
  }
}

}  // namespace
}  // namespace flotilla::mpi
