// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/clicks/click_dataset.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/line_reader.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::read_all;
using test::read_sample;
using test::Sample;

class ClickFolder : public testing::Test {
 protected:
  std::string criteo(const std::string& name, std::int64_t first, std::int64_t end) const {
    test::save_text(folder.path(name), test::criteo_text(first, end));
    return folder.path(name);
  }

  const test::TemporaryFolder folder;
};

TEST(LineIndex, KnowsWhereEverySampleIsToBeFoundInBoundedMemory) {
  for (const std::size_t most : {1, 2, 3, 7, 64}) {
    for (const std::int64_t count : {1, 2, 3, 8, 100, 129}) {
      LineIndex index(most);
      for (std::int64_t i = 0; i < count; ++i) index.add(10 * i);
      index.set_end(10 * count);

      ASSERT_EQ(index.size(), count);
      // So many entries that twice as many would not fit.
      EXPECT_LE((count + index.stride() - 1) / index.stride(), static_cast<std::int64_t>(most));
      for (std::int64_t i = 0; i < count; ++i) {
        const LineIndex::Entry entry = index.before(i);
        ASSERT_EQ(entry.sample, i / index.stride() * index.stride());
        ASSERT_EQ(entry.begin, 10 * entry.sample);
        ASSERT_EQ(entry.bytes, 10 * (std::min(entry.sample + index.stride(), count) - entry.sample));
      }
    }
  }
}

TEST(ClickFiles, ComeInTheOrderOfTheNumbersInTheirNames) {
  std::vector<std::string> names = {"day_10", "day_2", "day_1.gz", "day_01", "day_1", "a", "day_2a", "day_"};

  std::sort(names.begin(), names.end(), comes_before);

  EXPECT_EQ(names, (std::vector<std::string>{"a", "day_", "day_01", "day_1", "day_1.gz", "day_2", "day_2a",
                                             "day_10"}));
}

TEST_F(ClickFolder, LinesAreReadFromAnyByteOn) {
  test::save_text(folder.path("text"), "one\ntwo\r\n\nfour");
  const File file = File::open(folder.path("text"));
  LineReader lines;
  std::string_view line;
  std::vector<std::string> got;

  lines.seek(file, 4, 1);
  while (lines.next(line)) got.push_back(cat(lines.begin(), ":", line));

  EXPECT_EQ(got, (std::vector<std::string>{"4:two", "9:", "10:four"}));
  EXPECT_EQ(line_number(file, 10), 4);
  lines.seek(file, 0, 100);
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line, "one");
}

TEST_F(ClickFolder, LongLinesAreReadWhole) {
  const std::string long_line(3'000'000, 'x');
  test::save_text(folder.path("text"), "a\n" + long_line + "\nb\n");
  const File file = File::open(folder.path("text"));
  LineReader lines;
  std::string_view line;

  lines.seek(file, 0, 1);

  ASSERT_TRUE(lines.next(line));
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line, long_line);
  ASSERT_TRUE(lines.next(line));
  EXPECT_EQ(line, "b");
  EXPECT_FALSE(lines.next(line));
}

TEST_F(ClickFolder, SamplesAreTheSameInAnyOrder) {
  const auto data = test::open_criteo(criteo("a.tsv", 0, 500));
  const std::vector<Sample> expected = read_all(*data);
  const auto reader = data->bag_reader();
  std::vector<std::int64_t> order(500);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));

  ASSERT_EQ(data->size(), 500);
  EXPECT_EQ(data->slots(), 26);
  EXPECT_EQ(data->sample_shape(), (Shape{13}));
  EXPECT_FALSE(data->weighted());
  for (const std::int64_t i : order) {
    const Sample sample = read_sample(*data, *reader, i);
    ASSERT_EQ(sample, expected[static_cast<std::size_t>(i)]);
    ASSERT_EQ(sample.label, i % 2);
  }
  for (std::int64_t i = 0; i < 500; ++i) {
    for (std::int64_t j = 0; j < i; ++j)
      ASSERT_NE(expected[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(j)]);
    if (i > 30) break;
  }
}

TEST_F(ClickFolder, SeveralFilesAreReadAsOne) {
  const std::string whole = criteo("whole.tsv", 0, 100);
  std::filesystem::create_directory(folder.path("parts"));
  criteo("parts/part-2.tsv", 10, 40);
  criteo("parts/part-10.tsv", 40, 41);
  test::save_gzip(folder.path("parts/part-11.tsv.gz"), test::criteo_text(41, 100));
  criteo("parts/part-1.tsv", 0, 10);
  test::save_text(folder.path("parts/_SUCCESS"), "");
  test::save_text(folder.path("parts/.hidden"), "x");
  const std::vector<Sample> expected = read_all(*test::open_criteo(whole));

  EXPECT_EQ(read_all(*test::open_criteo(folder.path("parts"))), expected);
  EXPECT_EQ(read_all(*test::open_criteo(folder.path("parts/part-*"))), expected);
  EXPECT_EQ(test::open_criteo(folder.path("parts/part-?.tsv"))->size(), 40);
  const auto data = test::open_criteo(folder.path("parts"));
  const auto reader = data->bag_reader();
  for (const std::int64_t i : {99, 0, 40, 39, 41, 9, 10}) {
    EXPECT_EQ(read_sample(*data, *reader, i), expected[static_cast<std::size_t>(i)]) << i;
  }
  EXPECT_NE(data->description().find("100 samples of 4 files, parts (Criteo, 50.0 % positive"),
            std::string::npos)
      << data->description();
}

TEST_F(ClickFolder, LineEndsMarksAndEmptyLinesMakeNoDifference) {
  const std::vector<Sample> expected = read_all(*test::open_criteo(criteo("plain.tsv", 0, 20)));
  std::string text = test::criteo_text(0, 20);
  const auto same = [&](const std::string& changed) {
    test::save_text(folder.path("changed.tsv"), changed);
    return read_all(*test::open_criteo(folder.path("changed.tsv"))) == expected;
  };

  EXPECT_TRUE(same(text.substr(0, text.size() - 1))) << "no line feed at the end";
  EXPECT_TRUE(same(test::criteo_text(0, 20, "\r\n")));
  EXPECT_TRUE(same("\xEF\xBB\xBF" + text));
  EXPECT_TRUE(same("\n\n" + test::criteo_text(0, 20, "\n\n") + "\n"));
  EXPECT_TRUE(same(test::criteo_text(0, 20, "\r\n\r\n")));
}

TEST_F(ClickFolder, InflatedFilesAreTheSame) {
  const std::vector<Sample> expected = read_all(*test::open_libsvm([&] {
    test::save_text(folder.path("plain"), test::libsvm_text(0, 3000));
    return folder.path("plain");
  }()));
  test::save(folder.path("members.gz"),
             test::join(test::gzip(test::bytes_of(test::libsvm_text(0, 1234))),
                        test::gzip(test::bytes_of(test::libsvm_text(1234, 3000)))));

  const auto data = test::open_libsvm(folder.path("members.gz"));

  EXPECT_EQ(read_all(*data), expected);
  EXPECT_NE(data->description().find("MB inflated in"), std::string::npos);
  EXPECT_TRUE(data->weighted());
  EXPECT_EQ(data->slots(), 1);
  EXPECT_EQ(data->sample_shape().size(), 0);
}

TEST_F(ClickFolder, CommentsAndEmptyLinesOfLibsvmAreNoSamples) {
  test::save_text(folder.path("a"), "# head\n+1 1:1\n\n   \n-1 2:1 # tail\n  # more\n");

  const auto data = test::open_libsvm(folder.path("a"));

  ASSERT_EQ(data->size(), 2);
  const auto reader = data->bag_reader();
  EXPECT_EQ(read_sample(*data, *reader, 1).label, 0);
  EXPECT_EQ(read_sample(*data, *reader, 0).label, 1);
}

TEST_F(ClickFolder, FilesAreDealtInBlocksAndBytesInEqualParts) {
  std::filesystem::create_directory(folder.path("parts"));
  const std::vector<std::int64_t> sizes = {100, 10, 20, 5, 165};
  std::int64_t first = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    criteo(cat("parts/", k), first, first + sizes[k]);
    first += sizes[k];
  }
  const auto data = test::open_criteo(folder.path("parts"));
  using Shares = std::vector<std::int64_t>;

  EXPECT_EQ(data->deal(ShardBy::files, 1), (Shares{0, 300}));
  EXPECT_EQ(data->deal(ShardBy::files, 2), (Shares{0, 130, 300}));
  EXPECT_EQ(data->deal(ShardBy::files, 3), (Shares{0, 110, 135, 300}));
  EXPECT_EQ(data->deal(ShardBy::files, 6), (Shares{0, 100, 110, 130, 135, 300, 300}));
  for (const std::int64_t workers : {1, 2, 3, 7}) {
    const Shares shares = data->deal(ShardBy::bytes, workers);

    ASSERT_EQ(std::ssize(shares), workers + 1);
    EXPECT_EQ(shares.front(), 0);
    EXPECT_EQ(shares.back(), 300);
    // Lines have 170 to 240 bytes: the longest are by 41 % longer than the shortest.
    for (std::size_t k = 0; k + 1 < shares.size(); ++k)
      EXPECT_TRUE(test::within(
          static_cast<double>(shares[k + 1] - shares[k]) * static_cast<double>(workers) / 300.0, 1.0, 0.41));
  }
}

TEST_F(ClickFolder, SamplesAreFoundThroughASparseIndex) {
  constexpr std::int64_t count = 3000;
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += cat(i % 2, ' ', i, ":1\n", i % 7 == 0 ? "\n# gap\n" : "");
  test::save_text(folder.path("many"), text);
  const std::vector<Sample> expected = read_all(*test::open_libsvm(folder.path("many")));

  const auto sparse = make_click_dataset(folder.path("many"), make_libsvm_format(0), 1);  // every 64th

  ASSERT_EQ(sparse->size(), count);
  EXPECT_EQ(read_all(*sparse), expected);
  const auto reader = sparse->bag_reader();
  for (std::int64_t i = count - 1; i >= 0; i -= 13)
    ASSERT_EQ(read_sample(*sparse, *reader, i), expected[static_cast<std::size_t>(i)]);
}

}  // namespace
}  // namespace flotilla
