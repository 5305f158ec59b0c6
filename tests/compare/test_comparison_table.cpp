// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/compare/comparison_table.hpp"
#include "tests/support/within.hpp"

namespace flotilla::test {
namespace {

ComparedTraining training(std::int64_t seed, double accuracy, std::optional<double> target_s) {
  ComparedTraining result{.seed = seed, .folder = "f"};
  result.figures = {.end = "done",
                    .workers = 4,
                    .global_batch = 64,
                    .steps = 10,
                    .samples = 640,
                    .metric = "accuracy_top1",
                    .last = accuracy,
                    .best = accuracy,
                    .loss = 0.5,
                    .seconds = 2.0,
                    .target_s = target_s,
                    .bytes_per_sample = 7.0,
                    .exposed_share = 0.25};
  return result;
}

Comparison two_runs() {
  ComparedTraining diverged{.seed = 2, .failure = "diverged"};
  return {.command = "mpirun -n 4 flotilla compare p.toml",
          .machine = "a processor",
          .target = 0.9,
          .runs = {{"a|b", {"x.y=1"}, {training(1, 0.90, 1.0), training(2, 0.94, std::nullopt)}},
                   {"c", {}, {training(1, 0.80, std::nullopt), diverged}}}};
}

TEST(ComparisonTable, HasMeansAndStandardErrors) {
  // clang-format off
  EXPECT_EQ(markdown_of(two_runs()), R"(`mpirun -n 4 flotilla compare p.toml`

a processor. All runs see equally many samples, 2 seeds each: mean ± standard error.

| run  | final accuracy, % |         best |   training loss | samples/s |   time, s |    s to 90 % | bytes/sample | exposed comm., % | workers | batch | samples | remarks                 |
|------|------------------:|-------------:|----------------:|----------:|----------:|-------------:|-------------:|-----------------:|--------:|------:|--------:|-------------------------|
| a\|b |      92.00 ± 2.00 | 92.00 ± 2.00 | 0.5000 ± 0.0000 |   320 ± 0 | 2.0 ± 0.0 | 1.0 (1 of 2) |        7 ± 0 |       25.0 ± 0.0 |       4 |    64 |     640 |                         |
| c    |             80.00 |        80.00 |          0.5000 |       320 |       2.0 |            – |            7 |             25.0 |       4 |    64 |     640 | diverged (1 of 2 seeds) |
)");
  // clang-format on
}

TEST(ComparisonTable, IsInJsonToo) {
  const auto json = nlohmann::json::parse(json_of(two_runs()));

  EXPECT_EQ(json.at("equal"), "samples");
  const auto& first = json.at("runs").at(0);
  EXPECT_EQ(first.at("set"), nlohmann::json({"x.y=1"}));
  EXPECT_TRUE(test::within_double_roundings(first.at("final").at("mean"), 0.92, 4));
  EXPECT_TRUE(test::within(first.at("final").at("standard_error").get<double>(), 0.02, 1e-15));
  EXPECT_EQ(first.at("target_s").at("seeds"), 1);
  EXPECT_EQ(json.at("runs").at(1).at("trainings").at(1).at("failure"), "diverged");
  EXPECT_TRUE(json.at("runs").at(1).at("final").at("standard_error").is_null());
}

TEST(ComparisonTable, AStandardErrorNeedsTwoValues) {
  EXPECT_FALSE(mean_of(std::vector{3.0}).standard_error.has_value());
  const SeedMean mean = mean_of(std::vector{1.0, 2.0, 6.0});
  EXPECT_TRUE(test::within_double_roundings(mean.mean, 3.0, 4));
  EXPECT_TRUE(test::within_double_roundings(*mean.standard_error, std::sqrt(14.0 / 2.0 / 3.0), 4));
}

}  // namespace
}  // namespace flotilla::test
