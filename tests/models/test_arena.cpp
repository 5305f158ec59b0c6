// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "models/arena.hpp"

namespace flotilla {
namespace {

TEST(ArenaLayout, StartsEverySliceOn64Bytes) {
  ArenaLayout layout;

  layout.add("fc1.weight", {3, 5}, ParameterKind::weight);
  layout.add("fc1.bias", {3}, ParameterKind::bias);

  EXPECT_EQ(layout[0].offset, 0);
  EXPECT_EQ(layout[1].offset, 16);
  EXPECT_EQ(layout.size(), 32);
  EXPECT_EQ(layout.values(), 18);
}

TEST(ArenaLayout, CountsWhatTheDevicePads) {
  ArenaLayout layout;

  layout.add("conv1.weight", {2, 3}, ParameterKind::weight, 17);
  layout.add("fc.bias", {1}, ParameterKind::bias);

  EXPECT_EQ(layout[0].size, 17);
  EXPECT_EQ(layout[1].offset, 32);
  EXPECT_THROW(layout.add("short", {4}, ParameterKind::weight, 3), InternalError);
}

}  // namespace
}  // namespace flotilla
