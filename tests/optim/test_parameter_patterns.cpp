// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/optimizers.hpp"
#include "src/optim/optimizer.hpp"
#include "src/optim/parameter_patterns.hpp"

namespace flotilla {
namespace {

ArenaLayout parameters() {
  ArenaLayout layout;
  layout.add("layer1.0.conv1.weight", {4}, ParameterKind::weight);
  layout.add("layer1.0.bn1.weight", {2}, ParameterKind::batch_norm);
  layout.add("fc.weight", {6}, ParameterKind::weight);
  layout.add("fc.bias", {2}, ParameterKind::bias);
  return layout;
}

ArenaLayout statistics() {
  ArenaLayout layout;
  layout.add("layer1.0.bn1.running_mean", {2}, ParameterKind::batch_norm);
  layout.add("layer1.0.bn1.running_var", {2}, ParameterKind::batch_norm);
  return layout;
}

std::string refused(const Config& config) {
  try {
    check_patterns(config, parameters(), statistics());
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

TEST(ParameterPatterns, NameTensorsAsAShellNamesFiles) {
  OptimizerConfig config;
  config.frozen = {"layer1.*", "fc.b?as"};

  EXPECT_EQ(frozen_slices(config, parameters()), (std::vector<bool>{true, true, false, true}));
  EXPECT_FALSE(is_frozen(config, "layer10.conv"));
}

TEST(ParameterPatterns, NameBatchNormsWithBothStatistics) {
  ModelConfig config;
  config.fixed_statistics = {"layer1.0.bn?"};
  EXPECT_EQ(fixed_slices(config, statistics()), (std::vector<bool>{true, true}));
  config.fixed_statistics = {"bn1"};
  EXPECT_EQ(fixed_slices(config, statistics()), (std::vector<bool>{false, false}));
}

TEST(ParameterPatterns, SetTheRatesOfRangesAndLeaveFrozenOnesOut) {
  OptimizerConfig config;
  config.rates = {"fc.* 10", "fc.bias  0.5"};
  config.frozen = {"*.bn1.*"};

  const std::vector<FlatRange> ranges = update_ranges(config, parameters(), false);
  const std::vector<FlatRange> single = update_ranges(config, parameters(), true);

  ASSERT_EQ(ranges.size(), 3U);
  EXPECT_EQ(ranges[0], (FlatRange{.offset = 0, .count = 4}));
  EXPECT_EQ(ranges[1], (FlatRange{.offset = 32, .count = 6, .rate_factor = 10.0F}));
  EXPECT_EQ(ranges[2], (FlatRange{.offset = 48, .count = 2, .rate_factor = 0.5F}));
  ASSERT_EQ(single.size(), 4U);
  EXPECT_EQ(single[1].rate_factor, 0.0F);
}

TEST(ParameterPatterns, ThatNameNothingAreRefusedWithSimilarNames) {
  Config config;
  config.optimizer.frozen = {"layer2.*"};
  EXPECT_EQ(
      refused(config).find("optimizer.frozen: \"layer2.*\" names no parameter of this model; did you mean "
                           "\"layer1.*\""),
      0U)
      << refused(config);
  config.optimizer.frozen = {"fc"};
  EXPECT_NE(refused(config).find("\"fc\" names no parameter of this model; did you mean \"fc.*\""),
            std::string::npos)
      << refused(config);
  config.optimizer.frozen = {"*"};
  EXPECT_EQ(refused(config), "optimizer.frozen names all parameters: nothing is left to train");
  config.optimizer.frozen = {};
  config.model.fixed_statistics = {"fc"};
  EXPECT_EQ(refused(config).find("model.fixed_statistics: \"fc\" names no batch norm of this model"), 0U);
}

TEST(RateFactor, IsAPatternAndAPositiveNumber) {
  ASSERT_TRUE(rate_factor("fc.*  1e-1"));
  EXPECT_EQ(rate_factor("fc.*  1e-1")->pattern, "fc.*");
  EXPECT_EQ(rate_factor("fc.*  1e-1")->factor, 0.1);
  for (const char* text : {"fc.*", " 10", "fc.* 0", "fc.* -1", "fc.* ten", "fc.* inf", "fc.* "})
    EXPECT_FALSE(rate_factor(text)) << text;
}

}  // namespace
}  // namespace flotilla
