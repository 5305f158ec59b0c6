// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "src/config/collect_keys.hpp"
#include "tests/config/deck_support.hpp"

namespace flotilla::config {
namespace {

using Texts = std::vector<std::string>;
using Numbers = std::vector<double>;

template <class T>
std::optional<T> value(const std::string& text) {
  const auto read = value_from_text(text, Value(T{}));
  return read ? std::optional(std::get<T>(*read)) : std::nullopt;
}

TEST(OverrideValues, OfStringsAreTomlOrWords) {
  EXPECT_EQ(value<std::string>("a b"), "a b");
  EXPECT_EQ(value<std::string>("runs/x #1"), "runs/x #1");
  EXPECT_EQ(value<std::string>(R"("a\\\"b\u0041")"), "a\\\"bA");
  EXPECT_EQ(value<std::string>(R"('a\b')"), "a\\b");
  EXPECT_EQ(value<std::string>("it's"), "it's");
  EXPECT_EQ(value<std::string>(""), "");
  for (const char* const word : {"true", "1e3", "0x10", "nan", "2024-01-01", "[1]", "2"})
    EXPECT_EQ(value<std::string>(word), word);
  for (const char* const open : {"\"open", "'open"})
    EXPECT_EQ(value<std::string>(open), std::nullopt) << open;
}

TEST(OverrideValues, OfNumbersAreToml) {
  EXPECT_EQ(value<std::int64_t>("0x10"), 16);
  EXPECT_EQ(value<std::int64_t>("1_000"), 1000);
  EXPECT_EQ(value<std::int64_t>(" +3 "), 3);
  EXPECT_EQ(value<std::int64_t>("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(value<double>("1e3"), 1000.0);
  EXPECT_EQ(value<double>("7"), 7.0);
  EXPECT_EQ(value<double>(".05"), 0.05);
  EXPECT_EQ(value<double>("-1."), -1.0);
  EXPECT_EQ(value<bool>("true"), true);
  for (const char* const other : {"07", "1e3", "9223372036854775808", "x", "", "1, 2", "3\nw = 4"})
    EXPECT_EQ(value<std::int64_t>(other), std::nullopt) << other;
  EXPECT_EQ(value<bool>("True"), std::nullopt);
  EXPECT_EQ(value<double>("."), std::nullopt);
}

TEST(OverrideValues, OfArraysNeedNoBracketsAndNoQuotes) {
  EXPECT_EQ(value<Texts>(R"(["layer[1,2].*"])"), Texts{"layer[1,2].*"});
  EXPECT_EQ(value<Texts>("layer[1,2].*,fc.*"), (Texts{"layer[1,2].*", "fc.*"}));
  EXPECT_EQ(value<Texts>("[biases, batch_norm]"), (Texts{"biases", "batch_norm"}));
  EXPECT_EQ(value<Texts>(R"("a,\"b", 'c,d', e f)"), (Texts{"a,\"b", "c,d", "e f"}));
  EXPECT_EQ(value<Texts>("[]"), Texts{});
  EXPECT_EQ(value<Texts>("[\"a\", 1]"), std::nullopt);
  EXPECT_EQ(value<Texts>("0,1.5"), (Texts{"0", "1.5"}));
  EXPECT_EQ(value<Texts>("[a, 1]"), (Texts{"a", "1"}));
  EXPECT_EQ(value<Texts>(""), std::nullopt);
  EXPECT_EQ(value<Numbers>("1,.5,2."), (Numbers{1.0, 0.5, 2.0}));
  EXPECT_EQ(value<Numbers>("[1, [2]]"), std::nullopt);
}

TEST(Decks, TakeNumbersWithoutADigitOnOneSideOfThePoint) {
  const Config config =
      test::load(test::good_deck +
                 "warmup_from = .05\nkind = \"piecewise\"\nfactor = +.5e-1\nmilestones=[.5, 1., 2.e0]\n")
          .config;

  EXPECT_EQ(config.schedule.warmup_from, 0.05);
  EXPECT_EQ(config.schedule.factor, 0.05);
  EXPECT_EQ(config.schedule.milestones, (Numbers{0.5, 1.0, 2.0}));
  EXPECT_NE(test::mistakes_of(test::good_deck + "factor = .\n"), "");
}

TEST(Decks, MayHaveManyDotsButInTheNamesOfKeys) {
  const auto dots = [](int count) {
    std::string text;
    while (count-- > 0) text += "a.";
    return text + "a";
  };
  const std::string many = dots(300);
  EXPECT_EQ(test::mistakes_of(test::good_deck + "# " + many + "\n[run]\noutput = \"" + many + "\"\n"), "");
  EXPECT_EQ(test::mistakes_of(test::good_deck + "[run]\noutput = '''x''\n" + many + "''''\n"), "");
  for (const std::string& deep :
       {many + " = 1", "[" + many + "]", "x = {" + dots(200) + " = {" + dots(200) + " = 1}}",
        "x = [\n{" + dots(200) + " = [\n{" + dots(200) + " = 1}]}]",
        "s = \"\"\"a\"\"\"\"\"\n" + many + " = 1"})
    EXPECT_NE(test::mistakes_of(deep).find("a key with more than 256 dots"), std::string::npos) << deep;
}

TEST(Decks, OfOneRunAreLiteralInTheirPaths) {
  setenv("usd", "wrong", 1);
  const std::string folder = "/tmp/cost_in_$usd/~/{0..3}/a\nb\"c\\d%s";
  const Config config =
      test::load(test::good_deck, {"run.output=" + quoted("/tmp/cost_in_$$usd/~/{0..3}/a\nb\"c\\d%s")})
          .config;

  EXPECT_EQ(config.run.output, folder);
  EXPECT_EQ(test::load(config.resolved_text).config.run.output, folder);
  EXPECT_EQ(test::load(config.resolved_text, {"run.resume=/x/$usd"}).config.run.resume, "/x/wrong");
  const std::string older = config.resolved_text.substr(config.resolved_text.find('\n') + 1);
  EXPECT_EQ(load_deck({.path = "step.h5", .text = older, .overrides = {}, .saved = true}).config.run.output,
            folder);
}

}  // namespace
}  // namespace flotilla::config
