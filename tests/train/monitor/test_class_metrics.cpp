// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/random.hpp"
#include "src/train/monitor/class_metrics.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

std::vector<float> logits_of(const std::vector<std::vector<double>>& probabilities) {
  std::vector<float> logits;
  for (const auto& row : probabilities)
    for (const double p : row) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST(ClassCounts, GivesFiguresComputedByHand) {
  // Predictions 0 0 1 1 2 0; labels 0 0 0 1 1 2; class 3 neither occurs nor is predicted.
  const std::vector<float> logits = logits_of({{0.7, 0.1, 0.1, 0.1},
                                               {0.6, 0.2, 0.1, 0.1},
                                               {0.2, 0.5, 0.2, 0.1},
                                               {0.1, 0.7, 0.1, 0.1},
                                               {0.3, 0.2, 0.4, 0.1},
                                               {0.5, 0.15, 0.25, 0.1}});
  const std::vector<std::int32_t> labels = {0, 0, 0, 1, 1, 2};
  ClassCounts counts(4);
  counts.add(logits, labels);

  const Figures figures = counts.metrics();

  // F1: 2·2/(3+3), 2·1/(2+2), 0/(1+1); recall: 2/3, 1/2, 0.
  EXPECT_TRUE(test::within(figures.at("macro_f1"), (2.0 / 3.0 + 0.5 + 0.0) / 3.0, 1e-12));
  EXPECT_TRUE(test::within(figures.at("balanced_accuracy"), (2.0 / 3.0 + 0.5 + 0.0) / 3.0, 1e-12));
  // Class 0: of the nine pairs 0.7 and 0.6 lead all three others, 0.2 leads 0.1. Class 1: of eight pairs 0.7
  // leads four, 0.2 leads 0.1 and 0.15 and ties with 0.2. Class 2: 0.25 leads four of five.
  const double area = (7.0 / 9.0 + 6.5 / 8.0 + 4.0 / 5.0) / 3.0;
  EXPECT_TRUE(test::within(figures.at("roc_auc"), area, figures.at("roc_auc_bound") + 1e-12));
  EXPECT_TRUE(test::within(figures.at("roc_auc_bound"), 0.5 / 8.0 / 3.0, 1e-12)) << "the tie alone";
}

TEST(ClassCounts, IsWithinItsBoundOfTheAreaWithoutBins) {
  constexpr std::int64_t classes = 5;
  Random random(3, random_data);
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  for (int row = 0; row < 400; ++row) {
    labels.push_back(static_cast<std::int32_t>(random.below(classes)));
    for (std::int64_t c = 0; c < classes; ++c)
      logits.push_back(static_cast<float>(random.normal() + (c == labels.back() ? 1.0 : 0.0)));
  }
  ClassCounts counts(classes);
  counts.add(logits, labels);
  double sum = 0.0;
  for (std::size_t c = 0; c < classes; ++c) {
    std::vector<double> p;
    for (std::size_t row = 0; row < labels.size(); ++row) {
      double all = 0.0;
      for (std::size_t k = 0; k < classes; ++k) all += std::exp(double{logits[row * classes + k]});
      p.push_back(std::exp(double{logits[row * classes + c]}) / all);
    }
    double pairs = 0.0;
    double led = 0.0;
    for (std::size_t a = 0; a < p.size(); ++a)
      for (std::size_t b = 0; b < p.size(); ++b) {
        if (static_cast<std::size_t>(labels[a]) != c || static_cast<std::size_t>(labels[b]) == c) continue;
        pairs += 1.0;
        led += p[a] > p[b] ? 1.0 : p[a] == p[b] ? 0.5 : 0.0;
      }
    sum += led / pairs;
  }
  const Figures figures = counts.metrics();
  EXPECT_TRUE(test::within(figures.at("roc_auc"), sum / classes, figures.at("roc_auc_bound") + 1e-12));
  EXPECT_LT(figures.at("roc_auc_bound"), 1e-3);
}

TEST(ClassCounts, LeavesAreasOutAboveTheirLimitAndShowsWhatIsNotANumber) {
  ClassCounts many(ClassCounts::max_classes_of_auc + 1);
  EXPECT_FALSE(many.metrics().contains("roc_auc"));
  ClassCounts one_class(3);
  one_class.add(std::vector<float>{1, 0, 0, 0, 1, 0}, std::vector<std::int32_t>{0, 0});
  EXPECT_FALSE(one_class.metrics().contains("roc_auc")) << "no class has others beside it";
  EXPECT_EQ(one_class.metrics().at("balanced_accuracy"), 0.5);
  ClassCounts bad(2);
  bad.add(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()}, std::vector<std::int32_t>{0});
  EXPECT_TRUE(std::isnan(bad.metrics().at("macro_f1")));
}

}  // namespace
}  // namespace flotilla
