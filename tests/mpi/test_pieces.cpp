// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {
namespace {

std::vector<std::pair<std::size_t, int>> cut(std::size_t total, std::size_t limit) {
  std::vector<std::pair<std::size_t, int>> pieces;
  for_each_piece(total, limit, [&](std::size_t offset, int count) { pieces.emplace_back(offset, count); });
  return pieces;
}

using Pieces = std::vector<std::pair<std::size_t, int>>;

TEST(Pieces, CoverTheWholeWithoutGaps) {
  EXPECT_EQ(cut(0, 4), (Pieces{}));
  EXPECT_EQ(cut(4, 4), (Pieces{{0, 4}}));
  EXPECT_EQ(cut(9, 4), (Pieces{{0, 4}, {4, 4}, {8, 1}}));
}

TEST(Pieces, FitAnIntHoweverLargeTheWhole) {
  const Pieces pieces = cut((std::size_t{1} << 31) + 5, largest_piece);

  EXPECT_EQ(pieces, (Pieces{{0, 1 << 30}, {std::size_t{1} << 30, 1 << 30}, {std::size_t{1} << 31, 5}}));
}

TEST(Environment, TellsTheLibrarysVersionBeforeMpiIsInitialised) {
  const std::string version = Environment::library_version();

  EXPECT_FALSE(version.empty());
  EXPECT_EQ(version.find_first_of(",:\n\t"), std::string::npos) << version;
  EXPECT_EQ(version.find("  "), std::string::npos) << version;
  EXPECT_NE(version.find_first_of("0123456789"), std::string::npos) << version;
}

}  // namespace
}  // namespace flotilla::mpi
