// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

using test::load;
using test::mistakes_of;

const std::string click_deck =
    "[model]\n"
    "kind = \"ctr-dnn\"\n"
    "widths = [8]\n"
    "[data]\n"
    "kind = \"criteo\"\n"
    "train.path = \"day_*.tsv\"\n"
    "[train]\n"
    "epochs = 1\n"
    "batch_size = 10\n"
    "[schedule]\n"
    "learning_rate = 0.1\n"
    "[strategy]\n"
    "kind = \"parameter-server\"\n";

TEST(ClickKeys, CriteoIsReadInTheOrderOfTheFilesUnlessTheDeckSaysOtherwise) {
  EXPECT_EQ(load(click_deck).config.data.order, SampleOrder::file);
  EXPECT_EQ(load(click_deck, {"data.order=shuffled"}).config.data.order, SampleOrder::shuffled);
  EXPECT_EQ(load(click_deck, {"data.kind=libsvm"}).config.data.order, SampleOrder::shuffled);
  EXPECT_EQ(load(test::good_deck).config.data.order, SampleOrder::shuffled);
  EXPECT_NE(load(click_deck).config.resolved_text.find("order = \"file\""), std::string::npos);
}

TEST(ClickKeys, DefaultsAreTheOriginalsAndPathsMayBePatterns) {
  const Config config = load(click_deck).config;

  EXPECT_EQ(config.data.hash_buckets, 1000001);
  EXPECT_EQ(config.data.dense_transform, DenseTransform::log);
  EXPECT_TRUE(config.data.train.path.ends_with("/day_*.tsv"));
  EXPECT_TRUE(config.data.train.given);
  EXPECT_FALSE(config.data.validation.given);
}

TEST(ClickKeys, OthersAreRefusedWithTheirPlace) {
  EXPECT_NE(mistakes_of(click_deck, {"model.kind=mlp", "model.classes=2"})
                .find("only \"ctr-dnn\" has embeddings for the ids of click data"),
            std::string::npos);
  EXPECT_NE(mistakes_of(click_deck, {"train.mixup=0.2"}).find("bags of ids cannot be mixed"),
            std::string::npos);
  EXPECT_NE(mistakes_of(click_deck, {"data.hash_buckets=-1"}), "");
  EXPECT_NE(mistakes_of(click_deck, {"data.dense_transform=sqrt"}), "");
  EXPECT_NE(mistakes_of(click_deck, {"data.kind=libsvm", "data.dense_transform=log"}), "");
  EXPECT_NE(mistakes_of(test::good_deck, {"data.hash_buckets=7"}), "");
  EXPECT_NE(mistakes_of(test::good_deck, {"data.deal=files"}), "");
  EXPECT_NE(mistakes_of(click_deck, {"data.deal=files", "run.reproducible=true"})
                .find("data.deal and run.reproducible exclude each other"),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla
