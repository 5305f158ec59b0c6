// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <source_location>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla::test {
namespace {

class Within : public testing::Test {
 protected:
  Within() { unsetenv("FLOTILLA_BOUND_SHARES"); }  // these comparisons are to fail
};

TEST_F(Within, TakesDifferencesUpToTheBoundOnly) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(within(1.25, 1.0, 0.25));
  EXPECT_TRUE(within(1.0, 1.0, 0.0));
  EXPECT_TRUE(within(infinite, infinite, 0.0));
  EXPECT_FALSE(within(1.0, 1.25, 0.2));
  EXPECT_FALSE(within(1.0, 1.25, 0.0));
  EXPECT_FALSE(within(1.0, 1.25, -1.0));
  EXPECT_FALSE(within(none, 1.0, infinite));
  EXPECT_FALSE(within(1.0, 1.0 + 1e-9, none));
}

TEST_F(Within, TakesArraysOfOneSize) {
  EXPECT_TRUE(within({1.0F, 2.0F}, {1.5F, 1.5F}, 0.5));
  EXPECT_FALSE(within({1.0F, 2.0F}, {1.5F, 1.0F}, 0.5));
  EXPECT_FALSE(within({1.0F, 2.0F}, {1.0F}, 0.5));
}

TEST_F(Within, CountsRoundingsOfTheType) {
  EXPECT_TRUE(within_float_roundings(1.0F + 0x1p-23F, 1.0, 2));
  EXPECT_FALSE(within_float_roundings(1.0F + 0x1p-23F, 1.0, 1));
  EXPECT_TRUE(within_double_roundings(-3.0 - 0x1p-51, -3.0, 2));
  EXPECT_FALSE(within_double_roundings(-3.0 - 0x1p-51, -3.0, 1));
}

TEST_F(Within, WritesTheLargestShareOfEachLineWhenTheProcessEnds) {
  const TemporaryFolder folder;
  const std::string file = folder.path("shares");
  const auto here = std::source_location::current();
  const auto compare = [&](double share) {
    setenv("FLOTILLA_BOUND_SHARES", file.c_str(), 1);
    for (const double one : {0.5 * share, share, 0.25 * share}) within(one, 0.0, 1.0, here).message();
    std::exit(0);
  };

  EXPECT_EXIT(compare(0.5), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(compare(2.0), testing::ExitedWithCode(0), "");

  std::ifstream shares(file);
  const std::string text{std::istreambuf_iterator<char>(shares), {}};
  const std::string place = "tests/support/test_within.cpp:" + std::to_string(here.line());
  EXPECT_NE(text.find(place + " 0.5\n"), std::string::npos) << text;
  EXPECT_NE(text.find(place + " 2\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace flotilla::test
