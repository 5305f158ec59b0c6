// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/commands/make_data.hpp"
#include "src/data/clicks/synthetic_clicks.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(SyntheticClicks, ALineDependsOnSeedAndNumberAlone) {
  const SyntheticClicks clicks({.seed = 7});
  const SyntheticClicks again({.seed = 7});
  const SyntheticClicks other({.seed = 8});
  std::string first;
  std::string second;
  std::string third;

  const auto truth = clicks.write(41, first);
  again.write(40, second);
  second.clear();
  const auto same = again.write(41, second);
  other.write(41, third);

  EXPECT_EQ(first, second);
  EXPECT_EQ(truth.probability, same.probability);
  EXPECT_NE(first, third);
}

TEST(SyntheticClicks, LabelsFollowTheTrueProbabilities) {
  const SyntheticClicks clicks({.seed = 3});
  constexpr int rows = 40000;
  std::string text;
  std::map<int, std::array<double, 3>> bins;  // expected and met positives, variance
  for (int i = 0; i < rows; ++i) {
    const auto truth = clicks.write(i, text);
    auto& bin = bins[static_cast<int>(truth.probability * 10)];
    bin[0] += truth.probability;
    bin[1] += truth.label ? 1 : 0;
    bin[2] += truth.probability * (1 - truth.probability);
  }

  double positive = 0;
  for (const auto& [number, bin] : bins) {
    EXPECT_TRUE(test::within(bin[0], bin[1], 4.5 * std::sqrt(bin[2]) + 1e-9)) << number;
    positive += bin[1];
  }
  EXPECT_GE(bins.size(), 8U);
  // The intercept is found on 20,000 rows, the share on 40,000: deviation of p about 0.2.
  EXPECT_TRUE(test::within(positive / rows, 0.25, 4.5 * std::sqrt(0.04 / 20000 + 0.1875 / rows)));
}

TEST(SyntheticClicks, LinesAreCriteosAndLookLikeThem) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("clicks.tsv");
  make_criteo_data({.rows = 3000, .seed = 5, .output = path});

  const auto data = test::open_criteo(path);
  const auto samples = test::read_all(*data);

  ASSERT_EQ(data->size(), 3000);
  std::map<std::uint64_t, int> counts;
  std::int64_t zeros = 0;
  for (const test::Sample& sample : samples) {
    for (const std::uint64_t id : sample.ids) ++counts[id];
    zeros += std::ranges::count(sample.dense, 0.0F);
  }
  // Few categories are frequent, many are rare.
  EXPECT_GT(counts.size(), 3000U);
  EXPECT_GT(std::ranges::count_if(counts, [](const auto& entry) { return entry.second > 300; }), 26);
  EXPECT_GT(zeros, 3000);
}

using MakeData = test::InFolder;

TEST_F(MakeData, WritesTheSameBytesAgainAndValidationBeside) {
  const auto make = [&](const std::string& name, std::int64_t rows, std::int64_t validation_rows) {
    return make_criteo_data({.rows = rows,
                             .validation_rows = validation_rows,
                             .seed = 2,
                             .output = folder.path(name + ".tsv"),
                             .truth = folder.path(name + ".truth")});
  };

  const std::string said = make("a", 1000, 200);
  make("b", 1200, 0);

  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.truth", "a.tsv", "a.valid.truth", "a.valid.tsv",
                                                      "b.truth", "b.tsv"}));
  EXPECT_EQ(text_of(folder.path("a.tsv")) + text_of(folder.path("a.valid.tsv")),
            text_of(folder.path("b.tsv")));
  EXPECT_EQ(text_of(folder.path("a.truth")) + text_of(folder.path("a.valid.truth")),
            text_of(folder.path("b.truth")));
  EXPECT_TRUE(test::mentions(said, {"a.tsv: 1000 rows", "a.valid.tsv: 200 rows"}));
  EXPECT_EQ(std::ranges::count(text_of(folder.path("b.truth")), '\n'), 1200);
}

TEST_F(MakeData, LeavesNothingBehindWhereItCannotWrite) {
  std::filesystem::create_directory(folder.path("taken"));

  EXPECT_THROW(make_criteo_data({.rows = 10, .output = folder.path("taken")}), UserError);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"taken"});
}

TEST(Ceiling, IsTheAreaUnderTheCurveByHand) {
  Ceiling ceiling;
  EXPECT_EQ(ceiling.auc(), 0.5);
  // Among 2 × 3 pairs of a positive and a negative, 4 are in order and one is a tie.
  for (const auto& [probability, label] : std::vector<std::pair<double, bool>>{
           {0.9, true}, {0.8, false}, {0.3, true}, {0.3, false}, {0.1, false}})
    ceiling.add({.probability = probability, .label = label});

  EXPECT_EQ(ceiling.rows(), 5);
  EXPECT_EQ(ceiling.positive(), 2);
  EXPECT_TRUE(test::within_double_roundings(ceiling.auc(), 4.5 / 6.0, 4));
  EXPECT_TRUE(test::within(
      ceiling.log_loss(),
      -(std::log(0.9) + std::log(0.2) + std::log(0.3) + std::log(0.7) + std::log(0.9)) / 5, 1e-15));
}

}  // namespace
}  // namespace flotilla
