// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/error.hpp"
#include "src/train/monitor/click_metrics.hpp"
#include "tests/support/within.hpp"
#include "tests/train/clicks.hpp"

namespace flotilla {
namespace {

using test::Clicks;
using test::random_clicks;

ClickCounts counts_of(const Clicks& clicks) {
  ClickCounts counts;
  counts.add(clicks.logits, clicks.labels);
  return counts;
}

/// The samples' numbers, highest p first.
std::vector<std::size_t> ranked(const Clicks& clicks) {
  std::vector<std::size_t> order(clicks.labels.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return clicks.p(a) > clicks.p(b); });
  return order;
}

/// The AUC by its definition: over the sorted predictions themselves, ties counting half.
double exact_auc(const Clicks& clicks) {
  const std::vector<std::size_t> order = ranked(clicks);
  double area = 0.0;
  double above = 0.0;
  double others = 0.0;
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double hits = 0.0;
    for (; end < order.size() && clicks.p(order[end]) == clicks.p(order[begin]); ++end)
      hits += clicks.labels[order[end]];
    const double misses = static_cast<double>(end - begin) - hits;
    area += misses * (above + hits / 2.0);
    above += hits;
    others += misses;
    begin = end;
  }
  return area / (above * others);
}

double exact_average_precision(const Clicks& clicks) {
  double area = 0.0;
  double hits = 0.0;
  double seen = 0.0;
  for (const std::size_t sample : ranked(clicks)) {
    ++seen;
    if (clicks.labels[sample] == 0) continue;
    ++hits;
    area += hits / seen;
  }
  return area / hits;
}

TEST(ClickMetrics, CountInTheBinsOfTheOriginal) {
  EXPECT_EQ(click_bins, 4096U);
  EXPECT_EQ(click_cell(0.0, false), 0U);
  EXPECT_EQ(click_cell(0.0, true), 1U);
  EXPECT_EQ(click_cell(1.0, true), 2 * 4095U + 1);
  EXPECT_EQ(click_cell(0.999999, false), 2 * 4094U);
  EXPECT_EQ(click_cell(0.5, false), 2 * 2047U);
}

TEST(ClickMetrics, KeepTheAucWithinItsBound) {
  // Wide, usual and so narrow that all fall into a few bins.
  for (const double spread : {4.0, 1.0, 0.05, 0.0005}) {
    const Clicks clicks = random_clicks(11, 20000, spread);

    const Figures metrics = counts_of(clicks).metrics();

    EXPECT_TRUE(test::within(metrics.at("auc"), exact_auc(clicks), metrics.at("auc_bound"))) << spread;
    EXPECT_LT(metrics.at("auc_bound"), spread >= 1.0 ? 0.002 : 0.5) << spread;
    EXPECT_GT(metrics.at("auc_bound"), 0.0);
  }
}

TEST(ClickMetrics, CountTiesHalf) {
  Clicks clicks;
  for (int i = 0; i < 3; ++i) clicks.add(1.0, true);
  clicks.add(1.0, false);
  clicks.add(-1.0, false);
  clicks.add(-1.0, true);

  // Pairs: 3 · (½ + 1) + (0 + ½) of 4 · 2.
  const Figures metrics = counts_of(clicks).metrics();

  EXPECT_EQ(metrics.at("auc"), 5.0 / 8.0);
  EXPECT_EQ(metrics.at("auc"), exact_auc(clicks));
  EXPECT_EQ(metrics.at("auc_bound"), (3.0 * 1.0 + 1.0 * 1.0) / (2.0 * 4.0 * 2.0));
}

TEST(ClickMetrics, SayAHalfWhereNothingIsTold) {
  Clicks same;
  for (int i = 0; i < 10; ++i) same.add(0.5, i < 3);
  Clicks no_clicks;
  no_clicks.add(0.5, false);
  Clicks only_clicks;
  only_clicks.add(0.5, true);

  EXPECT_EQ(counts_of(same).metrics().at("auc"), 0.5);
  EXPECT_EQ(counts_of(same).metrics().at("auc_bound"), 0.5);
  EXPECT_TRUE(test::within(counts_of(same).metrics().at("pr_auc"), 0.3, 1e-15));
  for (const Clicks& clicks : {no_clicks, only_clicks, Clicks()}) {
    EXPECT_EQ(counts_of(clicks).metrics().at("auc"), 0.5);
    EXPECT_EQ(counts_of(clicks).metrics().at("auc_bound"), 0.0);
  }
  EXPECT_EQ(counts_of(no_clicks).metrics().at("pr_auc"), 0.0);
  EXPECT_TRUE(std::isnan(counts_of(no_clicks).metrics().at("calibration")));
  EXPECT_EQ(counts_of(only_clicks).metrics().at("pr_auc"), 1.0);
}

TEST(ClickMetrics, SayOneForPerfectOrderAndNoughtForItsReverse) {
  Clicks clicks;
  Clicks reversed;
  for (int i = 0; i < 10; ++i) {
    clicks.add(i - 5.0, i >= 6);
    reversed.add(5.0 - i, i >= 6);
  }

  EXPECT_EQ(counts_of(clicks).metrics().at("auc"), 1.0);
  EXPECT_EQ(counts_of(clicks).metrics().at("pr_auc"), 1.0);
  EXPECT_EQ(counts_of(reversed).metrics().at("auc"), 0.0);
}

TEST(ClickMetrics, HaveTheAveragePrecisionOfPredictionsThatBinsTellApart) {
  Random random(3, random_data);
  Clicks clicks;
  for (int bin = 0; bin < 1000; ++bin) {  // one sample a bin
    const double p = (4.0 * bin + 40.5) / 4095.0;
    clicks.add(std::log(p / (1.0 - p)), random.uniform() < p);
  }

  // 1000 roundings of terms below 1.
  EXPECT_TRUE(test::within(counts_of(clicks).metrics().at("pr_auc"), exact_average_precision(clicks), 1e-12));
  EXPECT_TRUE(test::within(counts_of(clicks).metrics().at("auc"), exact_auc(clicks), 1e-12));
}

TEST(ClickMetrics, HaveTheLossAndTheCalibrationOfTheirDefinition) {
  const Clicks clicks = random_clicks(5, 5000, 3.0);
  double loss = 0.0;
  double sum = 0.0;
  double hits = 0.0;
  for (std::size_t i = 0; i < clicks.labels.size(); ++i) {
    const double p = clicks.p(i);
    loss -= std::log(clicks.labels[i] == 1 ? p : 1.0 - p);
    sum += p;
    hits += clicks.labels[i];
  }

  const Figures metrics = counts_of(clicks).metrics();

  // Each sample is rounded to a step of 2⁻²⁸: half of it at most.
  EXPECT_TRUE(test::within(metrics.at("log_loss"), loss / 5000.0, std::pow(2.0, -29)));
  EXPECT_TRUE(test::within(metrics.at("calibration"), sum / hits, std::pow(2.0, -29) * 5000.0 / hits));
}

TEST(ClickMetrics, LimitTheLossOfOneSample) {
  Clicks clicks;
  clicks.add(-1e30, true);
  clicks.add(1e30, true);

  // −ln 10⁻¹⁵, and nothing for the other.
  EXPECT_TRUE(test::within(counts_of(clicks).metrics().at("log_loss"), 15.0 * std::log(10.0) / 2.0, 1e-8));
}

TEST(ClickMetrics, AreNotANumberIfAPredictionIsNot) {
  Clicks clicks = random_clicks(1, 100);
  clicks.add(std::numeric_limits<double>::quiet_NaN(), true);
  clicks.logits.insert(clicks.logits.end(), 2, std::numeric_limits<float>::infinity());
  clicks.labels.push_back(0);

  const ClickCounts counts = counts_of(clicks);
  const Figures metrics = counts.metrics();

  for (const double value : {metrics.at("auc"), metrics.at("auc_bound"), metrics.at("pr_auc"),
                             metrics.at("log_loss"), metrics.at("calibration")})
    EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(std::accumulate(counts.cells().begin(), counts.cells().end(), std::int64_t{0}), 100);
}

TEST(ClickMetrics, RefuseLogitsOfMoreClasses) {
  ClickCounts counts;
  const std::vector<float> logits(3);
  const std::vector<std::int32_t> labels(1);

  EXPECT_THROW(counts.add(logits, labels), InternalError);
}

}  // namespace
}  // namespace flotilla
