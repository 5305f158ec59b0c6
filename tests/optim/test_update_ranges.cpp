// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "src/optim/optimizer.hpp"
#include "tests/support/within.hpp"
#include "tests/train/plain_device.hpp"

namespace flotilla {
namespace {

ArenaLayout weight_and_bias() {
  ArenaLayout layout;
  layout.add("fc.weight", {5}, ParameterKind::weight);
  layout.add("fc.bias", {2}, ParameterKind::bias);
  return layout;
}

TEST(UpdateRanges, AreOneUnlessTheDecayDiffers) {
  ArenaLayout layout = weight_and_bias();
  layout.add("fc2.weight", {3}, ParameterKind::weight);
  layout.add("bn.weight", {3}, ParameterKind::batch_norm);
  OptimizerConfig config;
  config.weight_decay = 0.05;

  const std::vector<FlatRange> merged = update_ranges(config, layout, false);
  const std::vector<FlatRange> single = update_ranges(config, layout, true);
  config.no_decay = {NoDecay::biases, NoDecay::batch_norm};
  const std::vector<FlatRange> split = update_ranges(config, layout, false);

  ASSERT_EQ(merged.size(), 1U);
  EXPECT_EQ(merged[0].offset, 0);
  EXPECT_EQ(merged[0].count, 51);
  ASSERT_EQ(split.size(), 4U);
  EXPECT_EQ(split[1].offset, 16);
  EXPECT_EQ(split[1].count, 2);
  EXPECT_EQ(split[1].weight_decay, 0.0F);
  EXPECT_EQ(split[2].weight_decay, 0.05F);
  EXPECT_EQ(split[3].weight_decay, 0.0F);
  EXPECT_EQ(single.size(), 4U);
}

TEST(UpdateRanges, MergeExcludedNeighbours) {
  ArenaLayout layout = weight_and_bias();
  layout.add("bn.weight", {3}, ParameterKind::batch_norm);
  OptimizerConfig config;
  config.weight_decay = 0.05;
  config.no_decay = {NoDecay::biases, NoDecay::batch_norm};

  EXPECT_EQ(update_ranges(config, layout, false).size(), 2U);
}

TEST(ClipFactor, BringsTheScaledNormDownToTheLimit) {
  PlainFlatMath math;
  std::array<float, 2> gradients = {6.0F, 8.0F};
  const DeviceSpan<const float> span(gradients.data(), gradients.size());

  EXPECT_TRUE(test::within_double_roundings(clip_factor(math, span, 0.5, 2.0), 2.0 / (5.0 + 1e-6), 4));
  EXPECT_EQ(clip_factor(math, span, 0.5, 6.0), 1.0);
  EXPECT_EQ(clip_factor(math, span, 0.5, 0.0), 1.0);
}

TEST(ClipFactor, DoesNotHideWhatIsNotANumber) {
  PlainFlatMath math;
  const float bad = std::numeric_limits<float>::quiet_NaN();

  EXPECT_TRUE(std::isnan(clip_factor(math, {&bad, 1}, 1.0, 1.0)));
}

}  // namespace
}  // namespace flotilla
