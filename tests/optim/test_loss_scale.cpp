// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "src/optim/loss_scale.hpp"

namespace flotilla {
namespace {

/// 'g': a good step, 'o': one that overflowed.
void adjust(LossScale& scale, const std::string& steps) {
  for (const char step : steps) scale.adjust(step == 'g');
}

LossScaleConfig small() {
  return {.initial = 8.0, .growth = 2.0, .growth_every = 3, .backoff = 0.5, .backoff_every = 2};
}

TEST(LossScale, FollowsItsTable) {
  struct Row {
    std::string steps;
    float scale;
    std::int64_t skipped;
  };
  const std::vector<Row> table = {
      {"", 8.0F, 0},          {"gg", 8.0F, 0},      {"ggg", 16.0F, 0},     {"gggggg", 32.0F, 0},
      {"ggoggg", 16.0F, 1},   {"o", 8.0F, 1},       {"oo", 4.0F, 2},       {"ogo", 8.0F, 2},
      {"ooo", 4.0F, 3},       {"oooo", 2.0F, 4},    {"oooooo", 1.0F, 6},   {"oooooooooo", 1.0F, 10},
      {"ooooooggg", 2.0F, 6}, {"ggooggg", 8.0F, 2}, {"ggogggoo", 8.0F, 3}, {"ggggoggg", 32.0F, 1},
  };
  for (const Row& row : table) {
    LossScale scale(small());

    adjust(scale, row.steps);

    EXPECT_EQ(scale.scale(), row.scale) << row.steps;
    EXPECT_EQ(scale.skipped(), row.skipped) << row.steps;
  }
}

TEST(LossScale, HasTheOriginalsConstants) {
  LossScale scale{LossScaleConfig{}};
  EXPECT_EQ(scale.scale(), 32768.0F);

  adjust(scale, std::string(999, 'g'));
  EXPECT_EQ(scale.scale(), 32768.0F);
  adjust(scale, "g");
  EXPECT_EQ(scale.scale(), 65536.0F);
  adjust(scale, "oo");

  EXPECT_EQ(scale.scale(), 0.8F * 65536.0F);
}

TEST(LossScale, DoesNotFallBelowOne) {
  LossScale scale({.initial = 1.5, .backoff = 0.5, .backoff_every = 1});
  EXPECT_TRUE(scale.can_fall());

  adjust(scale, "oo");

  EXPECT_EQ(scale.scale(), 1.0F);
  EXPECT_FALSE(scale.can_fall());
  EXPECT_EQ(scale.consecutive_overflows(), 1);
}

TEST(LossScale, DoesNotGrowToInfinity) {
  LossScale scale({.initial = 3e38, .growth = 2.0, .growth_every = 1});

  adjust(scale, "g");

  EXPECT_EQ(scale.scale(), 3e38F);
}

TEST(LossScale, ThatIsStaticStaysAndCounts) {
  LossScale scale({.kind = LossScaleKind::fixed, .value = 128.0});

  adjust(scale, "gogooo" + std::string(5000, 'g') + "oo");

  EXPECT_EQ(scale.scale(), 128.0F);
  EXPECT_EQ(scale.skipped(), 6);
  EXPECT_EQ(scale.consecutive_overflows(), 2);
  EXPECT_FALSE(scale.can_fall());
}

TEST(LossScale, GoesOnFromItsNumbers) {
  LossScale whole(small());
  LossScale first(small());
  LossScale second(small());
  adjust(whole, "gooogggog");
  adjust(first, "gooog");

  second.set_numbers(first.numbers());
  adjust(second, "ggog");

  EXPECT_EQ(second.numbers(), whole.numbers());
  EXPECT_EQ(second.state(), whole.state());
}

TEST(LossScale, ThatIsStaticStaysTheDecksOnResume) {
  LossScale scale({.kind = LossScaleKind::fixed, .value = 128.0});

  scale.set_numbers({{"loss_scale", 64.0}, {"skipped_steps", 3.0}});

  EXPECT_EQ(scale.scale(), 128.0F);
  EXPECT_EQ(scale.skipped(), 3);
}

TEST(LossScale, IsOneWhereNobodyLooks) {
  LossScale none;

  none.set_numbers(LossScale(small()).numbers());

  EXPECT_FALSE(none.enabled());
  EXPECT_EQ(none.scale(), 1.0F);
  EXPECT_TRUE(none.numbers().empty());
}

TEST(LossScale, IsForFloat16Only) {
  EXPECT_TRUE(make_loss_scale({.precision = DevicePrecision::float16}).enabled());
  EXPECT_FALSE(make_loss_scale({.precision = DevicePrecision::bfloat16}).enabled());
  EXPECT_FALSE(make_loss_scale({.precision = DevicePrecision::float32}).enabled());
}

}  // namespace
}  // namespace flotilla
