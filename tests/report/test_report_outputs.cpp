// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/report/charts.hpp"
#include "src/report/metrics_reader.hpp"
#include "src/report/page_data.hpp"
#include "src/report/read_run.hpp"
#include "tests/report/metrics_text.hpp"

namespace flotilla::report {
namespace {

RunRecord small_run(const std::string& name) {
  const test::TemporaryFolder folder;
  write_into(folder, "metrics.jsonl",
             start_line(0, 1000) + step_line(10, 1001, "2.0", R"(,"accuracy_top1":0.25)") +
                 step_line(20, 1002, "null", R"(,"accuracy_top1":0.5)") + validation_line(20, 1003, 0.5));
  return read_run(folder.path(), name);
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// A parser of the elements of an XML document, as strict as the pictures need it. @returns what is wrong
std::string xml_mistake(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return "an element does not end";
    std::string inside = text.substr(at + 1, end - at - 1);
    if (inside.starts_with('?')) continue;
    if (inside.find('<') != std::string::npos || std::ranges::count(inside, '"') % 2 != 0) return inside;
    const std::string name = inside.substr(inside.starts_with('/') ? 1 : 0,
                                           inside.find_first_of(" /", 1) - (inside.starts_with('/') ? 1 : 0));
    if (inside.starts_with('/')) {
      if (open.empty() || open.back() != name) return "closes " + name;
      open.pop_back();
    } else if (!inside.ends_with('/')) {
      open.push_back(name);
    }
  }
  for (std::size_t at = text.find('&'); at != std::string::npos; at = text.find('&', at + 1))
    if (!text.substr(at).starts_with("&lt;") && !text.substr(at).starts_with("&gt;") &&
        !text.substr(at).starts_with("&amp;"))
      return "a bare &";
  return open.empty() ? "" : "leaves open " + open.back();
}

TEST(Pictures, AreWellFormedWhateverARunIsCalled) {
  const std::vector<RunRecord> runs = {small_run("<a> & \"b\"</svg>"), small_run("c\x01")};
  const std::vector<Picture> pictures = pictures_of(runs, {"a", "c"});

  std::vector<std::string> names;
  for (const Picture& picture : pictures) {
    names.push_back(picture.name);
    EXPECT_EQ(xml_mistake(picture.svg), "") << picture.name;
    EXPECT_EQ(picture.svg.find("nan"), std::string::npos) << picture.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "accuracy", "learning_rate", "samples_per_s", "step_s",
                                             "memory", "phases-a", "phases-c"}));
  EXPECT_NE(pictures[0].svg.find("Loss (nats)"), std::string::npos);
  EXPECT_NE(pictures[0].svg.find("&lt;a&gt; &amp; \"b\"&lt;/svg&gt;"), std::string::npos);
}

TEST(Pictures, HaveRoundTicks) {
  EXPECT_EQ(round_ticks(0.0, 10.0, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(0.0, 0.9, 6).size(), 5U);
  EXPECT_LE(round_ticks(1.0, std::nextafter(1.0, 2.0), 6).size(), 1U);
}

TEST(Charts, LeaveOutWhatNoRunReports) {
  RunRecord clicks = small_run("clicks");
  clicks.series["validation.auc"] = {{1, 0.5}};
  std::vector<std::string> names;
  for (const Chart& chart : charts_of({clicks})) names.push_back(chart.name);

  EXPECT_EQ(names,
            (std::vector<std::string>{"loss", "auc", "learning_rate", "samples_per_s", "step_s", "memory"}));
}

/// A run with these values of a series at steps 1, 2, ….
RunRecord run_of(const std::string& series, const std::vector<double>& values) {
  RunRecord run = small_run("run");
  run.series.clear();
  for (const double value : values)
    run.series[series].push_back({static_cast<double>(run.series[series].size() + 1), value});
  return run;
}

std::vector<double> values_with(std::initializer_list<std::pair<std::size_t, double>> others) {
  std::vector<double> values(24);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0 + 0.01 * static_cast<double>(i % 5);
  for (const auto& [place, value] : others) values[place] = value;
  return values;
}

TEST(Charts, ClipFewOutliersThatFlattenTheRest) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto bounds = [](const std::string& series, const std::vector<double>& values) {
    const Bounds found = charts_of({run_of(series, values)}).front().bounds;
    return std::pair(found.low, found.high);
  };
  EXPECT_EQ(bounds("step.step_s", values_with({{0, 50.0}})), std::pair(-inf, 1.04)) << "a slow first step";
  EXPECT_EQ(bounds("step.step_s", values_with({})), std::pair(-inf, inf));
  EXPECT_EQ(bounds("step.step_s", values_with({{7, 2.0}})), std::pair(-inf, inf)) << "half of the height";
  EXPECT_EQ(bounds("step.step_s", values_with({{3, 50.0}, {9, 50.0}})), std::pair(-inf, inf)) << "above 5 %";
  EXPECT_EQ(bounds("step.step_s", values_with({{3, 500.0}, {9, 50.0}})), std::pair(-inf, 50.0))
      << "the farthest";
  EXPECT_EQ(bounds("step.loss", values_with({{0, 50.0}})), std::pair(-inf, inf)) << "where training begins";
  EXPECT_EQ(bounds("step.loss", values_with({{5, 50.0}})), std::pair(-inf, 1.04));
  EXPECT_EQ(bounds("validation.r2", values_with({{5, -50.0}})), std::pair(1.0, inf));
  EXPECT_EQ(bounds("step.learning_rate", values_with({{5, 50.0}})), std::pair(-inf, inf));
  const auto both =
      charts_of({run_of("step.step_s", values_with({{0, 50.0}})), run_of("step.step_s", {50.0})});
  EXPECT_EQ(both.front().bounds.high, inf) << "a slow run is no outlier";
}

TEST(Charts, ShowStragglersWhereTheyExplainTheValues) {
  std::vector<std::string> names;
  for (const Chart& chart : charts_of({small_run("run")}))
    if (chart.has_stragglers) names.push_back(chart.name);
  EXPECT_EQ(names, (std::vector<std::string>{"samples_per_s", "step_s"}));
}

TEST(Pictures, MarkEachOutlierAtTheEdge) {
  const std::string clipped = pictures_of({run_of("step.step_s", values_with({{0, 50.0}}))}, {"run"})[0].svg;
  const std::string whole = pictures_of({run_of("step.step_s", values_with({}))}, {"run"})[0].svg;

  EXPECT_EQ(xml_mistake(clipped), "");
  EXPECT_EQ(count(clipped, "class=\"beyond\""), 1 + 1) << "one in the legend";
  EXPECT_NE(clipped.find(">outliers, beyond the edge<"), std::string::npos);
  EXPECT_NE(clipped.find("d=\"M118.40,38.00L"), std::string::npos) << "the line begins at the edge";
  EXPECT_EQ(count(clipped, "m-4,0a4,4"), 23) << "no marker of a value stands for the outlier";
  EXPECT_EQ(count(whole, "m-4,0a4,4"), 24);
  EXPECT_EQ(count(whole, "beyond"), 0);
}

TEST(PageData, TellsTheDigitsThatSamplesCanTell) {
  const auto decimals = [](std::int64_t samples) {
    RunRecord run = small_run("run");
    EXPECT_EQ(run.facts.validation_samples, 10);
    run.facts.validation_samples = samples;
    return nlohmann::json::parse(page_data({run}))["runs"][0]["totals"]["decimals"];
  };
  EXPECT_EQ(decimals(10000), 2);
  EXPECT_EQ(decimals(9999), 1);
  EXPECT_EQ(decimals(100), 0);
  EXPECT_EQ(decimals(10), 0);
  EXPECT_EQ(decimals(0), nullptr);
  const auto json = nlohmann::json::parse(page_data({run_of("step.step_s", values_with({{0, 50.0}}))}));
  EXPECT_EQ(json["charts"][0]["bounds"], nlohmann::json::parse("[null, 1.04]"));
  EXPECT_EQ(json["charts"][0]["has_stragglers"], true);
  EXPECT_EQ(json["runs"][0]["totals"]["is_share"], true);
}

TEST(DeckDifferences, AreTheKeysWithoutOneValueWhatOnlySomeHaveLast) {
  const std::string first =
      "[run]\noutput = \"a\"\nseed = 1\n[model]\nwidths = [64, 64]\n[strategy]\nperiod = 8\n";
  const std::string second = "[run]\noutput = \"b\"\nseed = 1\n[model]\nwidths = [64]\n[train]\nrate = 0.1\n";
  const std::vector<DeckDifference> rows = deck_differences({first, second});

  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].key, "model.widths");
  EXPECT_EQ(rows[0].values, (std::vector<std::string>{"[64, 64]", "[64]"}));
  EXPECT_EQ(rows[1].key, "strategy.period");
  EXPECT_EQ(rows[1].values, (std::vector<std::string>{"8", ""}));
  EXPECT_EQ(rows[2].values, (std::vector<std::string>{"", "0.1"}));
  EXPECT_TRUE(deck_differences({first, first}).empty());
  EXPECT_TRUE(deck_differences({first}).empty());
}

TEST(PageData, HoldsTheRunsAndNoMarkup) {
  RunRecord run = small_run("</script><script>alert(1)</script>");
  run.deck = "# <!-- </script>\n[run]\nseed = 1\n";
  const std::string text = page_data({run, run});

  EXPECT_EQ(text.find('<'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["runs"][0]["name"], run.name);
  EXPECT_EQ(json["runs"][0]["deck"], run.deck);
  EXPECT_EQ(json["runs"][0]["series"]["step.loss"], nlohmann::json::parse("[[10,20],[2.0,null]]"));
  EXPECT_EQ(json["runs"][0]["knots"],
            nlohmann::json::parse("[[0,10,20],[0.0,1.0,2.0],[0.0,1.0,2.0],[0,640,1280]]"));
  EXPECT_TRUE(json["differences"].empty());
}

TEST(Page, NeedsNoOtherFile) {
  const std::string page = page_of({small_run("a")});

  for (const char* other : {"http:", "https:", "src=", "href=", "@import", "url(h"}) {
    const std::size_t found = page.find(other);
    EXPECT_TRUE(found == std::string::npos ||
                page.substr(found, 40).find("www.w3.org/2000/svg") != std::string::npos)
        << page.substr(found, 60);
  }
  for (const char* place : {"/*style*/", "/*script*/", "/*data*/"})
    EXPECT_EQ(page.find(place), std::string::npos);
}

TEST(PageScript, IsInShortFiles) {
  for (const char* file : {"runs.js", "charts.js", "results.js"}) {
    const std::string script = text_of_file(cat(FLOTILLA_SOURCE_DIR "/src/report/page/", file));
    EXPECT_NE(page_js.find(script), std::string_view::npos) << file;
    EXPECT_LT(std::ranges::count(script, '\n'), 500) << file;
  }
}

TEST(Csv, HasEveryKeyAndNumbersAsTheyAreWritten) {
  const test::TemporaryFolder folder;
  write_into(folder, "metrics.jsonl",
             "{\"event\":\"start\",\"first_step\":0}\n"
             "{\"event\":\"step\",\"step\":1,\"loss\":0.10000000000000001,\"host\":\"a,\\\"b\\\"\\nc\"}\n"
             "{\"event\":\"step\",\"step\":2,\"loss\":null}\n"
             "{\"event\":\"validation\",\"step\":2}\n"
             "{\"event\":\"start\",\"first_step\":2}\n"
             "{\"event\":\"step\",\"step\":3,\"auc\":5,\"loss\":1e-9}\n"
             "{\"event\":\"step\",\"st");

  EXPECT_EQ(write_csv(folder.path("metrics.jsonl"), "step", folder.path("out.csv")), 3);
  EXPECT_EQ(text_of_file(folder.path("out.csv")),
            "step,loss,host,auc\r\n1,0.10000000000000001,\"a,\"\"b\"\"\nc\",\r\n2,,,\r\n3,1e-9,,5\r\n");
  EXPECT_EQ(write_csv(folder.path("metrics.jsonl"), "checkpoint", folder.path("none.csv")), 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path("none.csv")));
}

}  // namespace
}  // namespace flotilla::report
