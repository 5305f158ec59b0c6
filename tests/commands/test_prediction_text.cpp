// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "src/commands/predict.hpp"

namespace flotilla {
namespace {

/// Outputs whose probabilities are 0.1, 0.6, 0.3.
const std::array<float, 3> outputs = {std::log(1.0F), std::log(6.0F), std::log(3.0F)};

TEST(PredictionText, GivesTheMostProbableClassesInTheirOrder) {
  const PredictionLayout layout{.classes = {"cat", "dog", "hat"}, .outputs = 3, .top = 2, .names = true};

  EXPECT_EQ(prediction_header(layout), "sample,name,class_1,probability_1,class_2,probability_2\n");
  EXPECT_EQ(prediction_line(layout, 7, "a/b.jpg", outputs), "7,a/b.jpg,dog,0.6,hat,0.3\n");
  EXPECT_EQ(unread_line(layout, 8, "c.jpg", "is empty"), "8,c.jpg,,,,\n");
}

TEST(PredictionText, NumbersClassesWithoutNamesAndGivesNoMoreThanThereAre) {
  const PredictionLayout layout{.outputs = 3, .top = 5};

  EXPECT_EQ(prediction_line(layout, 0, "", outputs), "0,1,0.6,2,0.3,0,0.1\n");
}

TEST(PredictionText, GivesAllClassesAColumnEachInCsv) {
  const PredictionLayout layout{.classes = {"cat", "dog", "hat"}, .outputs = 3, .all = true};

  EXPECT_EQ(prediction_header(layout), "sample,cat,dog,hat\n");
  EXPECT_EQ(prediction_line(layout, 2, "", outputs), "2,0.1,0.6,0.3\n");
  EXPECT_EQ(unread_line(layout, 3, "", "is empty"), "3,,,\n");
}

TEST(PredictionText, IsUtf8WhateverTheNamesOfFilesAre) {
  PredictionLayout layout{.outputs = 3, .top = 1, .names = true};
  EXPECT_EQ(prediction_line(layout, 1, "ü\xFF,b.jpg", outputs), "1,\"ü\uFFFD,b.jpg\",1,0.6\n");
  EXPECT_EQ(unread_line(layout, 1, "\xC3.jpg", "is empty"), "1,\uFFFD.jpg,,\n");
  layout.format = PredictionFormat::jsonl;
  EXPECT_NE(prediction_line(layout, 1, "\xFF.jpg", outputs).find("\"\uFFFD.jpg\""), std::string::npos);
}

TEST(PredictionText, QuotesFieldsOfCsv) {
  const PredictionLayout layout{.classes = {"cat", "a \"big\", red dog", "hat"}, .outputs = 3, .names = true};

  EXPECT_EQ(prediction_line(layout, 0, "x,y.jpg", outputs), "0,\"x,y.jpg\",\"a \"\"big\"\", red dog\",0.6\n");
}

TEST(PredictionText, IsJsonOfTextsOrNumbers) {
  PredictionLayout layout{.format = PredictionFormat::jsonl, .outputs = 3, .top = 2};
  EXPECT_EQ(prediction_header(layout), "");
  EXPECT_EQ(prediction_line(layout, 4, "", outputs),
            "{\"sample\":4,\"classes\":[1,2],\"probabilities\":[0.6,0.3]}\n");

  layout.classes = {"cat", "dog", "hat"};
  layout.names = true;
  EXPECT_EQ(prediction_line(layout, 4, "\"\xFF", outputs),
            "{\"sample\":4,\"name\":\"\\\"\xEF\xBF\xBD\",\"classes\":[\"dog\",\"hat\"],\"probabilities\":[0."
            "6,0.3]}\n");
  EXPECT_EQ(unread_line(layout, 5, "b", "is empty"),
            "{\"sample\":5,\"name\":\"b\",\"error\":\"is empty\"}\n");
}

TEST(PredictionText, PutsTheLowerOfEqualClassesFirstAndBearsLargeOutputs) {
  const PredictionLayout layout{.outputs = 3, .top = 3};
  const std::array<float, 3> large = {1e30F, -1e30F, 1e30F};

  EXPECT_EQ(prediction_line(layout, 0, "", large), "0,0,0.5,2,0.5,1,0\n");
}

}  // namespace
}  // namespace flotilla
