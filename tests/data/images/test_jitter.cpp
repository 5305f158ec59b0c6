// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "src/data/images/image_transform.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using Kind = ColourChange::Kind;

/// Three columns and two rows; R, G, B.
std::vector<float> colours() {
  std::vector<float> planes = {0,   37,  74,  59,  107, 155, 83,  120, 157,
                               142, 190, 238, 166, 203, 240, 225, 17,  65};
  for (float& value : planes) value /= 255;
  return planes;
}

std::vector<float> changed(const ColourChange& change) {
  std::vector<float> planes = colours();
  change_colours(change, planes);
  return planes;
}

std::vector<float> changed(Kind kind, float amount) {
  ColourChange change;
  change.amount[kind] = amount;
  return changed(change);
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  // Six digits below, and about ten roundings of values up to 4 (a hue in sixths).
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(test::within(values[i], expected[i], 5e-7 + 10 * 4 * 0x1p-24)) << i;
}

// Values of torchvision 0.29, transforms.functional.adjust_… of a float tensor.
TEST(Jitter, ChangesBrightnessAsTorchvision) {
  expect_near(
      changed(Kind::brightness, 1.4F),
      {0.000000F, 0.203137F, 0.406275F, 0.323922F, 0.587451F, 0.850980F, 0.455686F, 0.658824F, 0.861961F,
       0.779608F, 1.000000F, 1.000000F, 0.911373F, 1.000000F, 1.000000F, 1.000000F, 0.093333F, 0.356863F});
}

TEST(Jitter, ChangesContrastAsTorchvision) {
  expect_near(
      changed(Kind::contrast, 0.6F),
      {0.203780F, 0.290839F, 0.377898F, 0.342604F, 0.455545F, 0.568486F, 0.399074F, 0.486133F, 0.573192F,
       0.537898F, 0.650839F, 0.763780F, 0.594368F, 0.681427F, 0.768486F, 0.733192F, 0.243780F, 0.356721F});
}

TEST(Jitter, ChangesSaturationAsTorchvision) {
  expect_near(
      changed(Kind::saturation, 1.7F),
      {0.000000F, 0.000000F, 0.104524F, 0.045697F, 0.314058F, 0.502307F, 0.367641F, 0.512749F, 0.657858F,
       0.599030F, 0.867391F, 1.000000F, 0.920974F, 1.000000F, 1.000000F, 1.000000F, 0.000000F, 0.000000F});
}

TEST(Jitter, TurnsTheHueAsTorchvision) {
  expect_near(changed(Kind::hue, 0.2F), {0.455686F, 0.600784F, 0.745882F, 0.687058F, 0.066667F, 0.254902F,
                                         0.000000F, 0.145098F, 0.290196F, 0.231373F, 0.745098F, 0.933333F,
                                         0.650980F, 0.796078F, 0.941176F, 0.882353F, 0.527843F, 0.716079F});
  expect_near(changed(Kind::hue, -0.35F), {0.390588F, 0.535686F, 0.680785F, 0.621961F, 0.745098F, 0.933333F,
                                           0.650980F, 0.796078F, 0.941176F, 0.882353F, 0.066667F, 0.254902F,
                                           0.000000F, 0.145098F, 0.290196F, 0.231373F, 0.487451F, 0.675686F});
}

TEST(Jitter, ChangesOneAfterTheOtherInTheGivenOrder) {
  expect_near(
      changed({.order = {Kind::hue, Kind::contrast, Kind::saturation, Kind::brightness},
               .amount = {0.8F, 1.3F, 0.5F, 0.1F}}),
      {0.033639F, 0.146592F, 0.292245F, 0.234559F, 0.204148F, 0.363921F, 0.033639F, 0.112742F, 0.258394F,
       0.200708F, 0.548166F, 0.674804F, 0.328716F, 0.451251F, 0.550925F, 0.523827F, 0.223523F, 0.392062F});
}

TEST(Jitter, LeavesColoursAloneWithoutAChange) {
  EXPECT_EQ(changed(ColourChange{}), colours());
}

TEST(Jitter, DrawsAmountsFromTheirRangesInEveryOrder) {
  const ColorJitter jitter{.brightness = 0.4, .contrast = 2, .saturation = 0, .hue = 0.1};
  std::array<float, 4> low = {9, 9, 9, 9};
  std::array<float, 4> high = {-9, -9, -9, -9};
  std::map<std::array<Kind, 4>, int> orders;
  for (std::uint64_t variation = 0; variation < 4800; ++variation) {
    Random random(variation, random_augmentation);
    const ColourChange change = draw_colour_change(random, jitter);
    ++orders[change.order];
    for (std::size_t kind = 0; kind < 4; ++kind) {
      low[kind] = std::min(low[kind], change.amount[kind]);
      high[kind] = std::max(high[kind], change.amount[kind]);
    }
  }

  const std::array<float, 4> from = {0.6F, 0, 1, -0.1F};  // Contrast: max(0, 1 − 2)
  const std::array<float, 4> to = {1.4F, 3, 1, 0.1F};
  for (std::size_t kind = 0; kind < 4; ++kind) {
    EXPECT_GE(low[kind], from[kind]);
    EXPECT_LE(high[kind], to[kind]);
    // The chance that 4800 draws all miss the outer hundredth is 10^−21.
    EXPECT_LE(low[kind], from[kind] + (to[kind] - from[kind]) / 100);
    EXPECT_GE(high[kind], to[kind] - (to[kind] - from[kind]) / 100);
  }
  EXPECT_EQ(orders.size(), 24U);
  for (const auto& [order, count] : orders) EXPECT_TRUE(test::within(count, 200, 6 * 14.1));
}

}  // namespace
}  // namespace flotilla
