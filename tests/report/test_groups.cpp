// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/report/charts.hpp"
#include "src/report/groups.hpp"
#include "src/report/page_data.hpp"

namespace flotilla::report {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

RunRecord run_with(const std::string& name, int seed, const std::string& more = "",
                   std::vector<Point> loss = {{10, 1.0}, {20, 0.5}}) {
  RunRecord run{.name = name, .folder = "runs/" + name};
  run.deck = cat("[run]\nseed = ", seed, "\noutput = \"runs/", name, "\"\n", more);
  run.facts.workers = 2;
  run.series["step.loss"] = std::move(loss);
  run.totals.end.step = run.series["step.loss"].back().step;
  return run;
}

std::vector<std::pair<std::string, std::vector<std::size_t>>> pairs_of(const std::vector<RunRecord>& runs) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> pairs;
  for (const RunGroup& group : groups_of(runs)) pairs.emplace_back(group.name, group.members);
  return pairs;
}

TEST(Groups, AreOfRunsThatDifferInTheSeedOnly) {
  std::vector<RunRecord> runs = {run_with("a-s1", 1), run_with("fast", 1, "[train]\nepochs = 2\n"),
                                 run_with("a-s2", 2), run_with("alone", 4),
                                 run_with("a-s3", 3), run_with("bare", 5)};
  runs[3].facts.workers = 4;
  runs[5].deck.clear();
  EXPECT_EQ(pairs_of(runs), (std::vector<std::pair<std::string, std::vector<std::size_t>>>{
                                {"a", {0, 2, 4}}, {"fast", {1}}, {"alone", {3}}, {"bare", {5}}}));

  const std::vector<RunRecord> repeated = {run_with("a", 1), run_with("b", 2), run_with("c", 2)};
  EXPECT_EQ(pairs_of(repeated).size(), 3U) << "runs of one seed are no sample of seeds";
}

TEST(Groups, AreCalledAfterWhatTheNamesHaveInCommon) {
  const auto name = [](const std::vector<std::string>& names) {
    std::vector<RunRecord> runs;
    for (const std::string& each : names) runs.push_back(run_with(each, static_cast<int>(runs.size())));
    return groups_of(runs).front().name;
  };
  EXPECT_EQ(name({"adam/seed-1", "adam/seed-2"}), "adam");
  EXPECT_EQ(name({"w128-1", "w128-12"}), "w128");
  EXPECT_EQ(name({"w1", "w12", "w2"}), "w");
  EXPECT_EQ(name({"w128a", "w128b"}), "w128");
  EXPECT_EQ(name({"classes1", "classes2"}), "classes");
  EXPECT_EQ(name({"a_s1", "a_s2"}), "a");
  EXPECT_EQ(name({"a", "a-2"}), "a …") << "the name of a run";
  EXPECT_EQ(name({"x", "y"}), "x …");
}

TEST(Groups, HaveMeansAndDeviationsWhereTwoMembersReport) {
  std::vector<RunRecord> runs = {run_with("a1", 1, "", {{10, 1.0}, {20, 4.0}, {30, 5.0}}),
                                 run_with("a2", 2, "", {{10, 2.0}, {20, nan}, {30, 7.0}, {40, 9.0}}),
                                 run_with("a3", 3, "", {{10, 3.0}})};
  runs[2].series["mean step.loss"] = {{10, 6.0}};  // it was reduced
  runs[0].totals.figure = "r2";
  runs[0].totals.gap_of = "loss";
  const RunRecord mean = folded(runs).front();

  EXPECT_EQ(mean.seeds, 3);
  EXPECT_EQ(mean.totals.figure, "r2");
  EXPECT_EQ(mean.totals.gap_of, "loss");
  EXPECT_EQ(mean.totals.end.step, 40.0);
  EXPECT_EQ(mean.series.at("step.loss"), (std::vector<Point>{{10, 3.0}, {20, 4.0}, {30, 6.0}}));
  EXPECT_EQ(mean.series.at("deviation step.loss"),
            (std::vector<Point>{{10, std::sqrt((4.0 + 1.0 + 9.0) / 2.0)}, {20, 0.0}, {30, std::sqrt(2.0)}}));
  EXPECT_EQ(mean.series.size(), 2U);
}

TEST(Groups, AreInThePageBesideTheirRuns) {
  const auto json = nlohmann::json::parse(
      page_data({run_with("a1", 1), run_with("b", 1, "[train]\nepochs = 2\n"), run_with("a2", 2)}));

  ASSERT_EQ(json["runs"].size(), 3U);
  ASSERT_EQ(json["groups"].size(), 2U);
  EXPECT_EQ(json["groups"][0]["members"], nlohmann::json::parse("[0, 2]"));
  EXPECT_EQ(json["groups"][0]["name"], "a");
  EXPECT_EQ(json["groups"][0]["series"]["deviation step.loss"], nlohmann::json::parse("[[10,20],[0.0,0.0]]"));
  EXPECT_EQ(json["groups"][1], nlohmann::json::parse(R"({"members": [1]})"));
  EXPECT_EQ(json["differences"], nlohmann::json::parse(R"([{"key": "train.epochs", "values": ["", "2"]}])"));
}

TEST(Groups, AreDrawnAsABandInPictures) {
  const std::vector<RunRecord> runs = {run_with("a1", 1, "", {{10, 1.0}, {20, 1.0}}),
                                       run_with("a2", 2, "", {{10, 3.0}, {20, 1.0}}),
                                       run_with("b", 1, "[train]\nepochs = 2\n")};
  const std::string svg = pictures_of(folded(runs), {"a", "b"})[0].svg;

  EXPECT_NE(svg.find(">a, 2 seeds<"), std::string::npos);
  EXPECT_NE(svg.find(">mean ± standard deviation of seeds<"), std::string::npos);
  const std::size_t band = svg.find("class=\"deviation\" d=\"M");
  ASSERT_NE(band, std::string::npos);
  EXPECT_EQ(svg.find("class=\"deviation\"", band + 1), std::string::npos);
  const std::string path = svg.substr(band, svg.find("Z\"", band) - band);
  EXPECT_EQ(std::ranges::count(path, 'L'), 3) << path;  // two steps above and two below
  EXPECT_EQ(pictures_of(runs, {"a1", "a2", "b"})[0].svg.find("deviation"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::report
