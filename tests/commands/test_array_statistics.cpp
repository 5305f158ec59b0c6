// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/error.hpp"
#include "src/commands/array_statistics.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

/// An array in memory whose chunks hold many rows: number k of a row is k mod 4, plus 1 in odd rows. It notes
/// the bytes of the largest read.
class MadeArray final : public Array {
 public:
  MadeArray(std::vector<std::int64_t> extents, std::int64_t chunk_rows)
      : Array({.name = "made", .extents = std::move(extents), .type = {}, .storage = ""}),
        chunk_rows_(chunk_rows) {}
  std::int64_t rows_at_once() const override { return chunk_rows_; }
  void read(std::int64_t first, std::int64_t count, std::span<std::byte> to) const override {
    largest = std::max(largest, std::ssize(to));
    const auto width = static_cast<std::size_t>(form().row_bytes());
    std::vector<std::byte> even(width);
    for (std::size_t k = 0; k < width; ++k) even[k] = static_cast<std::byte>(k % 4);
    std::vector<std::byte> odd(width);
    for (std::size_t k = 0; k < width; ++k) odd[k] = static_cast<std::byte>(k % 4 + 1);
    for (std::int64_t row = 0; row < count; ++row)
      std::memcpy(to.data() + static_cast<std::size_t>(row) * width,
                  ((first + row) % 2 == 0 ? even : odd).data(), width);
  }
  void will_read(std::int64_t /*first*/, std::int64_t /*count*/) const override {}

  mutable std::int64_t largest = 0;

 private:
  std::int64_t chunk_rows_;
};

TEST(ArrayStatistics, TakeWholeChunksWithinABoundOfMemory) {
  const MadeArray small({64, 4096}, 16);
  statistics_of(small, false, [](std::int64_t) {});
  EXPECT_EQ(small.largest, 64 * 4096);  // less than a piece

  const MadeArray wide({9000, 32768}, 9000);  // a band of chunks takes 281 MiB
  const ArrayStatistics found = statistics_of(wide, false, [](std::int64_t) {});
  EXPECT_EQ(wide.largest, 256 * mebibyte);
  EXPECT_EQ(found.all.count, std::int64_t{9000} * 32768);
  EXPECT_TRUE(test::within_double_roundings(found.all.mean, 2.0, 4));
  EXPECT_TRUE(test::within(found.all.deviation(), std::sqrt(1.5), 1e-12));  // of 0 … 3 and 1 … 4
  EXPECT_EQ(found.min, 0.0);
  EXPECT_EQ(found.max, 4.0);
}

TEST(ArrayStatistics, OfGroupsAreTakenOfEachInPiecesOfRows) {
  const MadeArray images({1001, 4, 33, 31}, 7);
  const ArrayStatistics found = statistics_of(images, false, [](std::int64_t) {});
  ASSERT_EQ(found.groups.size(), 4U);
  // Rows of odd numbers are by 1 larger: 500 of 1001.
  for (std::size_t channel = 0; channel < 4; ++channel) {
    double sum = 0.0;
    for (std::size_t k = channel * 1023; k < (channel + 1) * 1023; ++k) sum += static_cast<double>(k % 4);
    EXPECT_TRUE(test::within(found.groups[channel].mean, sum / 1023.0 + 500.0 / 1001.0, 1e-12));
    EXPECT_EQ(found.groups[channel].count, 1001 * 1023);
  }
}

TEST(ArrayStatistics, RefuseRowsThatNoMemoryHolds) {
  const MadeArray row({1, std::int64_t{1} << 40}, 1);
  EXPECT_THROW(statistics_of(row, false, [](std::int64_t) {}), UserError);
  EXPECT_EQ(row.largest, 0);
}

}  // namespace
}  // namespace flotilla
