// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/clicks/line_format.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

struct Parsed {
  std::int32_t label = -1;
  std::vector<float> dense;
  BagBuffer bags{1, 26, true};
};

Parsed parse(const LineFormat& format, const std::string& line) {
  Parsed parsed;
  parsed.dense.resize(static_cast<std::size_t>(format.dense()));
  parsed.label = format.parse(line, parsed.dense, parsed.bags);
  return parsed;
}

std::string complaint(const LineFormat& format, const std::string& line) {
  return test::error_of([&] { parse(format, line); });
}

/// A Criteo line of these numbers; the categories are all "c".
std::string line_of(const std::vector<std::string>& numbers) {
  std::string line = "1";
  for (std::size_t k = 0; k < 13; ++k) line += '\t' + (k < numbers.size() ? numbers[k] : "");
  for (int slot = 0; slot < 26; ++slot) line += "\tc";
  return line;
}

TEST(CategoryId, IsTheSameForAllTime) {
  EXPECT_EQ(category_id(0, "", 0), 0x2D06800538D394C2U);  // XXH3 of nothing, as xxHash documents it
  EXPECT_EQ(category_id(0, "68fd1e64", 0), 49613333376404301U);
  EXPECT_EQ(category_id(25, "68fd1e64", 0), 2351506979100804750U);
  EXPECT_EQ(category_id(0, "68fd1e64", 1000001), category_id(0, "68fd1e64", 0) % 1000001);
}

TEST(CategoryId, ToldSlotsApart) {
  std::set<std::uint64_t> ids;
  for (std::int64_t slot = 0; slot < 26; ++slot) {
    for (const char* text : {"", "0", "1", "68fd1e64", "a category that is longer than sixteen bytes"})
      ids.insert(category_id(slot, text, 0));
  }

  EXPECT_EQ(ids.size(), 26U * 5U);
}

TEST(CriteoFormat, ReadsLabelNumbersAndCategories) {
  const auto format = make_criteo_format({.transform = DenseTransform::log, .hash_buckets = 1000001});

  const Parsed parsed = parse(*format, test::criteo_line(3));

  EXPECT_EQ(parsed.label, 1);
  for (std::size_t k = 0; k < 13; ++k) {
    const float expected = k == 1 ? 0.0F : std::log1p(static_cast<float>(3 + k));
    EXPECT_TRUE(test::within_float_roundings(parsed.dense[k], expected, 4)) << k;
  }
  const Bags bags = parsed.bags.bags();
  ASSERT_EQ(bags.ids.size(), 26U);
  ASSERT_EQ(bags.ends.size(), 26U);
  EXPECT_TRUE(bags.values.empty());
  for (std::size_t slot = 0; slot < 26; ++slot) {
    const std::string text = slot == 2 ? "" : cat("s", slot, "v3");
    EXPECT_EQ(bags.ids[slot], category_id(static_cast<std::int64_t>(slot), text, 1000001));
    EXPECT_EQ(bags.ends[slot], static_cast<std::int32_t>(slot + 1));
  }
}

TEST(CriteoFormat, TransformsNumbersByLogarithm) {
  const auto format = make_criteo_format({});

  const Parsed parsed = parse(*format, line_of({"0", "-3", "", "1", "2.5", "+7", "99999999999"}));

  const std::vector<float> expected = {
      0.0F, 0.0F, 0.0F, std::log1p(1.0F), std::log1p(2.5F), std::log1p(7.0F), std::log1p(99999999999.0F)};
  for (std::size_t k = 0; k < expected.size(); ++k)
    EXPECT_TRUE(test::within_float_roundings(parsed.dense[k], expected[k], 4)) << k;
}

TEST(CriteoFormat, ScalesNumbersBetweenLeastAndCap) {
  const auto format = make_criteo_format({.transform = DenseTransform::min_max});

  const Parsed parsed =
      parse(*format, line_of({"20", "600", "25", "", "-1", "250", "200", "0", "500", "5", "1", "3", "100"}));
  const Parsed low =
      parse(*format, line_of({"21", "-3", "0", "", "0", "0", "0", "0", "0", "0", "0", "0", "0"}));
  const Parsed lower = parse(*format, line_of({"5", "-4"}));
  const Parsed zero = parse(*format, line_of({"", "0"}));

  const std::array<float, 13> expected = {1.0F, 1.0F, 0.25F, 0.0F, 0.0F, 0.5F, 1.0F,
                                          0.0F, 1.0F, 0.5F,  0.1F, 0.3F, 1.0F};
  for (std::size_t k = 0; k < 13; ++k) EXPECT_EQ(parsed.dense[k], expected[k]) << k;
  EXPECT_EQ(low.dense[0], 1.0F);
  EXPECT_EQ(low.dense[1], 0.0F);
  EXPECT_EQ(lower.dense[0], 0.25F);
  EXPECT_EQ(lower.dense[1], 0.0F);
  EXPECT_EQ(zero.dense[1], 3.0F / 603.0F);
}

TEST(CriteoFormat, RefusesBadLinesAndSaysWhy) {
  const auto format = make_criteo_format({});
  const auto says = [&](const std::string& line, const std::string& part) {
    EXPECT_TRUE(test::mentions(complaint(*format, line), {part}));
  };
  const std::string good = test::criteo_line(1);

  EXPECT_EQ(complaint(*format, good), "");
  says(good.substr(2), "has 39 columns, but 40");
  says(good.substr(2), "is the label missing");
  says(good + "\t", "has 41 columns");
  says("1", "has 1 column,");
  says("2" + good.substr(1), "the label (column 1) must be 0 or 1, got \"2\"");
  says("-1" + good.substr(1), "got \"-1\"");
  says(good.substr(1), "got \"\"");
  says(line_of({"", "x"}), "column 3 (I2) must be a number or empty, got \"x\"");
  says(line_of({"1 "}), "column 2 (I1)");
  for (const char* number : {"nan", "inf", "1e99", "0x10", "1,5", "--1", "+-1", "-", "+", "1e", "."})
    says(line_of({number}), "must be a number");
  says(line_of({std::string(1000, 'y')}), "…");
}

TEST(LibsvmFormat, ReadsPairsIntoOneBag) {
  const auto format = make_libsvm_format(0);

  const Parsed parsed = parse(*format, "+1 3:1 11:0.5\t0:-2e1  7:+3 # 8:9");

  EXPECT_EQ(parsed.label, 1);
  const Bags bags = parsed.bags.bags();
  const std::vector<std::uint64_t> ids = {category_id(0, "3", 0), category_id(0, "11", 0),
                                          category_id(0, "0", 0), category_id(0, "7", 0)};
  EXPECT_EQ(std::vector(bags.ids.begin(), bags.ids.end()), ids);
  EXPECT_EQ(std::vector(bags.values.begin(), bags.values.end()),
            (std::vector<float>{1.0F, 0.5F, -20.0F, 3.0F}));
  EXPECT_EQ(std::vector(bags.ends.begin(), bags.ends.end()), std::vector<std::int32_t>{4});
}

TEST(LibsvmFormat, AnIndexHasOneIdHoweverItIsWritten) {
  const auto format = make_libsvm_format(1000001);

  const Parsed parsed = parse(*format, "0 7:1 007:1 0:1 000:1");

  const Bags bags = parsed.bags.bags();
  EXPECT_EQ(bags.ids[0], bags.ids[1]);
  EXPECT_EQ(bags.ids[2], bags.ids[3]);
  EXPECT_NE(bags.ids[0], bags.ids[2]);
  EXPECT_LT(bags.ids[0], 1000001U);
}

TEST(LibsvmFormat, KnowsBothKindsOfLabelsAndEmptyBags) {
  const auto format = make_libsvm_format(0);

  for (const char* one : {"1", "+1", "1.0", " 1 ", "1 # 3:1"}) {
    EXPECT_EQ(parse(*format, one).label, 1) << one;
    EXPECT_EQ(parse(*format, one).bags.bags().ids.size(), 0U);
    EXPECT_EQ(parse(*format, one).bags.bags().ends.size(), 1U);
  }
  EXPECT_EQ(parse(*format, "0 1:1").label, 0);
  EXPECT_EQ(parse(*format, "-1 1:1").label, 0);
  EXPECT_EQ(format->label("-1 1:1"), -1);
  EXPECT_EQ(format->label("0.0 1:1"), 0);
}

TEST(LibsvmFormat, TellsSamplesFromCommentsAndEmptyLines) {
  const auto format = make_libsvm_format(0);

  for (const char* line : {"", "  ", "\t", "# made by hand", "  # 1 2:3"})
    EXPECT_FALSE(format->is_sample(line));
  for (const char* line : {"1", " 0 1:2", "x"}) EXPECT_TRUE(format->is_sample(line));
}

TEST(LibsvmFormat, RefusesBadLinesAndSaysWhy) {
  const auto format = make_libsvm_format(0);
  const auto says = [&](const std::string& line, const std::string& part) {
    EXPECT_TRUE(test::mentions(complaint(*format, line), {part}));
  };

  for (const char* label : {"3 1:1", "-2 1:1", "a 1:1", "1,2 1:1", "0.5", "nan", "1:1 2:1"})
    says(label, "the label must be");
  says("1 x:1", "the index a whole number from 0 on, got \"x:1\"");
  says("1 -1:1", "the index a whole number");
  says("1 1.5:1", "the index a whole number");
  says("1 99999999999999999999:1", "the index a whole number");
  says("1 :1", "the index a whole number");
  says("1 5", "index:value pairs");
  says("1 5: 1", "the value of an index must be a number, got \"5:\"");
  says("1 5:one", "the value of an index must be a number");
  says("1 5:nan", "the value of an index must be a number");
  says("1 5:1:2", "the value of an index must be a number");
  says("1 qid:3 1:1", "is for ranking");
}

/// Whatever a line holds, it is read or refused with a UserError, and what is read is finite.
TEST(LineFormats, SurviveArbitraryLines) {
  const auto criteo = make_criteo_format({});
  const auto libsvm = make_libsvm_format(1000);
  std::mt19937 random(5);
  const std::string letters("\t\t\t 01-+.:e#x\0\r\xFF", 17);
  int read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string line = round % 2 == 0 ? test::criteo_line(round) : test::libsvm_line(round);
    for (unsigned change = random() % 4; change > 0; --change) {
      const std::size_t at = random() % (line.size() + 1);
      const char letter = letters[random() % letters.size()];
      switch (random() % 3) {
        case 0: line.insert(at, 1, letter); break;
        case 1: line.resize(at); break;
        default:
          if (at < line.size()) line[at] = letter;
      }
    }
    for (const LineFormat* format : {criteo.get(), libsvm.get()}) {
      if (!format->is_sample(line)) continue;
      try {
        const Parsed parsed = parse(*format, line);
        ++read;
        ASSERT_TRUE(parsed.label == 0 || parsed.label == 1);
        ASSERT_EQ(std::ssize(parsed.bags.bags().ends), format->slots());
        for (const float value : parsed.dense) ASSERT_TRUE(std::isfinite(value));
        for (const float value : parsed.bags.bags().values) ASSERT_TRUE(std::isfinite(value));
      } catch (const UserError&) {
      }
    }
  }
  EXPECT_GT(read, 5000);
}

}  // namespace
}  // namespace flotilla
