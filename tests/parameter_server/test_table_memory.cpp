// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "src/observe/reporter.hpp"
#include "src/parameter_server/rows/sparse_table.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

/// What a server's memory must stay below, its peak while it grows included.
double allowed_bytes(std::size_t rows, std::size_t width, std::size_t slots) {
  return 1.3 * static_cast<double>(rows * (width * (1 + slots) * sizeof(float) + 16));
}

TEST(TableMemory, StaysNearItsRowsWhileItGrows) {
  // The least favourable: the smallest rows. Its own program, so that the peak is this table's.
  constexpr std::size_t width = 8;
  constexpr std::size_t rows = 2'000'000;
  constexpr std::size_t batch = 1000;
  const std::int64_t before = resident_memory_bytes();
  std::vector<std::uint64_t> keys(batch);
  std::vector<float> values(batch * width);
  SparseTable table({.width = width});

  for (std::size_t filled = 0; filled < rows;) {
    for (std::uint64_t& key : keys) key = filled++;
    table.pull(keys, values);
    if (filled >= 100'000) {
      ASSERT_LE(static_cast<double>(table.memory_bytes()), allowed_bytes(filled, width, 0)) << filled;
      ASSERT_LE(table.memory_bytes(), planned_bytes(filled, width, 0)) << filled;
    }
  }

  EXPECT_EQ(table.rows(), rows);
  const auto peak = static_cast<double>(peak_memory_bytes() - before);
  EXPECT_GE(peak, static_cast<double>(rows * width * sizeof(float)));
  EXPECT_LE(peak, allowed_bytes(rows, width, 0));
  EXPECT_LE(peak, static_cast<double>(planned_bytes(rows, width, 0)));
}

TEST(TableMemory, IsPlannedWithoutATable) {
  // 100 million rows of 16, alone and with Adam's moments, to a byte for each row.
  EXPECT_TRUE(test::within(static_cast<double>(planned_bytes(100'000'000, 16, 0)), 100e6 * (64 + 22), 100e6));
  EXPECT_TRUE(
      test::within(static_cast<double>(planned_bytes(100'000'000, 16, 2)), 100e6 * (192 + 22), 100e6));
  for (const std::size_t slots : {0, 1, 2}) {
    for (const std::size_t width : {8, 10, 16, 64}) {
      for (const std::size_t rows : {1'000'000, 10'000'000, 100'000'000})
        EXPECT_LE(static_cast<double>(planned_bytes(rows, width, slots)), allowed_bytes(rows, width, slots));
    }
  }
}

}  // namespace
}  // namespace flotilla
