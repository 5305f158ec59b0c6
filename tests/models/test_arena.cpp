// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>

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

using Copy = std::function<void(std::span<const float>, std::span<float>)>;

TensorSet set_of(const Copy& copy, std::int64_t stored_size = 0) {
  TensorSet tensors;
  tensors.add({.name = "fc.weight",
               .shape = {2, 3},
               .stored_size = stored_size,
               .from_plain = copy,
               .to_plain = copy});
  return tensors;
}

TEST(TensorSet, TellsOrdersOfValuesApart) {
  const Copy straight = [](auto from, auto to) { std::ranges::copy(from, to.begin()); };
  const Copy reversed = [](auto from, auto to) { std::ranges::reverse_copy(from, to.begin()); };
  const Copy last = [](auto from, auto to) { std::ranges::copy(from, to.end() - 6); };

  EXPECT_EQ(set_of(straight).order(), set_of(straight).order());
  EXPECT_NE(set_of(straight).order(), set_of(reversed).order());
  EXPECT_NE(set_of(straight, 8).order(), set_of(last, 8).order());
}

}  // namespace
}  // namespace flotilla
