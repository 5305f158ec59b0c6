// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/clicks/click_dataset.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/line_reader.hpp"
#include "src/data/loader.hpp"
#include "src/files/packed_fields.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/support/messages.hpp"
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

TEST(SampleIndex, KnowsInWhichBlockEverySampleBegins) {
  for (const std::int64_t block_bytes : {1, 7, 64, 4096}) {
    for (const std::int64_t count : {1, 2, 8, 100, 3000}) {
      // Samples of 5 bytes, 20 bytes without a sample behind each third one.
      std::vector<std::int64_t> begins;
      for (std::int64_t i = 0; i < count; ++i) begins.push_back(5 * i + 20 * (i / 3));
      SampleIndex index(begins.back() + 5, block_bytes);
      std::vector<SampleIndex::Block> blocks(static_cast<std::size_t>(index.blocks()));
      for (const std::int64_t begin : begins) {
        SampleIndex::Block& block = blocks[static_cast<std::size_t>(begin / block_bytes)];
        if (block.samples++ == 0) block.begin = static_cast<std::uint16_t>(begin % block_bytes);
      }
      const auto third = blocks.begin() + std::ssize(blocks) / 3;
      index.add({blocks.begin(), third});
      index.add({third, blocks.end()});

      ASSERT_EQ(index.size(), count);
      ASSERT_TRUE(index.is_complete());
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t begin = begins[static_cast<std::size_t>(i)];
        const SampleIndex::Entry entry = index.before(i);
        ASSERT_EQ(entry.begin, begins[static_cast<std::size_t>(entry.sample)]);
        ASSERT_LE(entry.begin, begin);
        ASSERT_EQ(entry.begin / block_bytes, begin / block_bytes);
        ASSERT_GT(entry.begin + entry.bytes, begin);
        ASSERT_LE(entry.bytes, block_bytes + 25);
        const auto [known, may_be_later] = index.known_before(begin);
        ASSERT_LE(known, i);
        ASSERT_TRUE(known == i || may_be_later);
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
  EXPECT_TRUE(
      test::mentions(data->description(), {"100 samples of 4 files, parts (Criteo, 50.0 % positive"}));
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
  EXPECT_TRUE(test::mentions(data->description(), {"MB inflated in"}));
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

ClickOpening opening_of(const std::string& path, const LineFormat& format, std::int64_t block_bytes) {
  static const std::string none;
  static const std::map<std::string, std::string> not_inflated;
  return {path, none, format, libsvm_reader.file, not_inflated, block_bytes};
}

TEST_F(ClickFolder, SamplesAreFoundThroughAnIndexOfAnyBlocks) {
  constexpr std::int64_t count = 3000;
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += cat(i % 2, ' ', i, ":1\n", i % 7 == 0 ? "\n# gap\n" : "");
  test::save_text(folder.path("many"), text);
  const std::vector<Sample> expected = read_all(*test::open_libsvm(folder.path("many")));

  for (const std::int64_t block_bytes : {1, 16, 1000, 32768}) {
    auto format = make_libsvm_format(0);
    const auto data =
        make_click_dataset(opening_of(folder.path("many"), *format, block_bytes), std::move(format));

    ASSERT_EQ(data->size(), count);
    EXPECT_EQ(read_all(*data), expected);
    const auto reader = data->bag_reader();
    for (std::int64_t i = count - 1; i >= 0; i -= 13)
      ASSERT_EQ(read_sample(*data, *reader, i), expected[static_cast<std::size_t>(i)]);
    EXPECT_EQ(data->deal(ShardBy::bytes, 7), test::open_libsvm(folder.path("many"))->deal(ShardBy::bytes, 7));
  }
}

/// The samples of the logs, read by so many ranks, or the mistake that they report.
std::string told(const std::string& path, const LineFormat& format, int parts, std::int64_t block_bytes) {
  try {
    ClickLogs logs = ClickLogs::open(opening_of(path, format, block_bytes));
    std::vector<ClickPiece> pieces;
    for (int part = 0; part < parts; ++part)
      std::ranges::move(unpacked<std::vector<ClickPiece>>(packed(logs.scan(format, part, parts))),
                        std::back_inserter(pieces));
    logs.merge(std::move(pieces));
    std::string text = cat(logs.labels.ones, " ", logs.labels.minus, logs.left_out.text());
    for (const ClickFile& file : logs.files)
      for (std::int64_t i = 0; i < file.index.size(); ++i) text += cat(" ", file.index.before(i).begin);
    return text;
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST_F(ClickFolder, RanksThatReadSharesFindWhatOneFinds) {
  const auto format = make_libsvm_format(0);
  const auto expect_same = [&](std::initializer_list<std::string> texts, const std::string& mistake) {
    std::filesystem::remove_all(folder.path("parts"));
    std::filesystem::create_directory(folder.path("parts"));
    for (const std::string& text : texts)
      test::save_text(folder.path(cat("parts/", &text - texts.begin())), text);
    for (const std::int64_t block_bytes : {1, 16, 64}) {
      const std::string alone = told(folder.path("parts"), *format, 1, block_bytes);
      EXPECT_TRUE(test::mentions(alone, {mistake}));
      for (const int parts : {2, 3, 8, 32, 1000})
        ASSERT_EQ(told(folder.path("parts"), *format, parts, block_bytes), alone)
            << parts << " parts, blocks of " << block_bytes;
    }
  };
  const std::string good = test::libsvm_text(0, 150);
  const std::string comments = "# a comment that is longer than some blocks\n\n";
  const auto named = [&](int file, int line) {
    return cat(folder.path(cat("parts/", file)), ":", line, ": ");
  };

  expect_same({"\xEF\xBB\xBF" + good, comments + good + comments, good + "+1 1:1"}, "comment or empty line");
  expect_same({good, good + comments + "5 1:1\n" + good, good + "6 1:1\n"}, named(1, 153) + "the label");
  expect_same({good, good + "0 1:1\n" + good, "5 1:1\n"}, named(1, 151) + "labels are");
  // The 51st sample is checked completely, by the rank that reads the beginning.
  expect_same({good, test::libsvm_text(0, 50) + "+1 3\n" + good + "5 1:1\n"}, named(1, 51) + "after the");
  expect_same({test::libsvm_text(0, 30) + "5 1:1\n+1 3\n"}, named(0, 31) + "the label");
  expect_same({test::libsvm_text(0, 30) + "0 1:1\n+1 3\n"}, named(0, 31) + "labels are");
  expect_same({good, comments + comments, good + "5 1:1\n"}, folder.path("parts/1") + ": holds no sample");
}

/// Row `row` of a batch.
Sample row_of(const Batch& batch, std::size_t row, const Dataset& data) {
  const auto dense = static_cast<std::size_t>(data.sample_shape().size());
  const auto slots = static_cast<std::size_t>(data.slots());
  Sample sample{.label = batch.labels[row], .dense = {}, .ids = {}, .values = {}, .ends = {}};
  const auto images = batch.images.subspan(row * dense, dense);
  sample.dense.assign(images.begin(), images.end());
  const std::int32_t first = row == 0 ? 0 : batch.bags.ends[row * slots - 1];
  std::int32_t begin = first;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const std::int32_t end = batch.bags.ends[row * slots + slot];
    for (std::int32_t k = begin; k < end; ++k) {
      sample.ids.push_back(batch.bags.ids[static_cast<std::size_t>(k)]);
      if (!batch.bags.values.empty()) sample.values.push_back(batch.bags.values[static_cast<std::size_t>(k)]);
    }
    sample.ends.push_back(end - first);
    begin = end;
  }
  return sample;
}

std::vector<Sample> take(Loader& loader, const Dataset& data, std::int64_t batches) {
  std::vector<Sample> rows;
  for (std::int64_t b = 0; b < batches; ++b) {
    const Batch& batch = loader.next();
    EXPECT_EQ(std::ssize(batch.bags.ends), std::ssize(batch.labels) * data.slots());
    EXPECT_EQ(static_cast<std::size_t>(batch.bags.ends.back()), batch.bags.ids.size());
    for (std::size_t row = 0; row < batch.labels.size(); ++row) rows.push_back(row_of(batch, row, data));
  }
  return rows;
}

LoaderOptions with_threads(std::int64_t threads) {
  return {.threads = threads, .prefetch = 3, .sink = {}};
}

class ClickLoader : public testing::Test {
 protected:
  ClickLoader() {
    test::save_text(folder.path("criteo"), test::criteo_text(0, 240));
    test::save_text(folder.path("libsvm"), test::libsvm_text(0, 240));
    data.push_back(test::open_criteo(folder.path("criteo")));
    data.push_back(test::open_libsvm(folder.path("libsvm")));
  }

  const test::TemporaryFolder folder;
  std::vector<std::unique_ptr<Dataset>> data;
};

TEST_F(ClickLoader, DeliversTheSamplersSamplesWithAnyNumberOfThreads) {
  for (const auto& set : data) {
    const std::vector<Sample> samples = test::read_all(*set);
    const Sampler sampler(3, {.samples = 240, .workers = 2, .batch = 7, .micro_steps = 2});
    for (const std::int64_t threads : {0, 1, 2, 5}) {
      const auto loader = make_training_loader(*set, sampler, 1, {1, 28}, with_threads(threads));

      const std::vector<Sample> rows = take(*loader, *set, 20);

      Position position{1, 28};
      std::vector<std::int64_t> expected(7);
      for (std::size_t b = 0; b < 20; ++b) {
        sampler.indices(position, 1, static_cast<std::int64_t>(b % 2), expected);
        for (std::size_t row = 0; row < 7; ++row)
          ASSERT_EQ(rows[7 * b + row], samples[static_cast<std::size_t>(expected[row])])
              << threads << " threads";
        if (b % 2 == 1) position = sampler.after(position);
      }
    }
  }
}

/// A batch large enough to be cut into parts for the threads.
TEST_F(ClickLoader, ThreadsShareALargeBatch) {
  std::string text;
  for (int copy = 0; copy < 40; ++copy) text += test::criteo_text(0, 240);
  test::save_text(folder.path("large"), text);
  const auto large = test::open_criteo(folder.path("large"));
  const Sampler sampler(3, {.samples = 9600, .workers = 1, .batch = 9000});
  const auto alone = take(*make_training_loader(*large, sampler, 0, {}, with_threads(1)), *large, 2);

  const auto shared = take(*make_training_loader(*large, sampler, 0, {}, with_threads(3)), *large, 2);

  EXPECT_EQ(shared, alone);
}

TEST_F(ClickLoader, InTheOrderOfTheFileAStepIsTheNextGlobalBatch) {
  for (const auto& set : data) {
    const std::vector<Sample> samples = test::read_all(*set);
    for (const std::int64_t workers : {1, 2, 4}) {
      const Sampler sampler(
          3, {.samples = 240, .workers = workers, .batch = 40 / workers, .order = SampleOrder::file});
      std::vector<std::vector<Sample>> shares;
      for (std::int64_t worker = 0; worker < workers; ++worker)
        shares.push_back(
            take(*make_training_loader(*set, sampler, worker, {0, 80}, with_threads(2)), *set, 8));

      std::size_t expected = 80;  // resumed there; two epochs meet at 240
      for (std::size_t step = 0; step < 8; ++step) {
        for (const auto& share : shares) {
          const std::size_t rows = 40 / shares.size();
          for (std::size_t row = 0; row < rows; ++row)
            ASSERT_EQ(share[step * rows + row], samples[expected++ % 240]) << workers << " workers";
        }
      }
    }
  }
}

TEST_F(ClickLoader, WorkersWithFilesOfTheirOwnTakeEqualSteps) {
  std::filesystem::create_directory(folder.path("parts"));
  test::save_text(folder.path("parts/0"), test::criteo_text(0, 100));
  test::save_text(folder.path("parts/1"), test::criteo_text(100, 110));
  const auto parts = test::open_criteo(folder.path("parts"));
  const std::vector<Sample> samples = test::read_all(*parts);
  const Sharding sharding = assign_shards(
      {.samples = 110, .workers = 2, .batch = 8, .order = SampleOrder::file}, *parts, ShardBy::files);
  const Sampler sampler(3, sharding);

  ASSERT_EQ(sharding.steps_per_epoch(), 13);
  const auto rows = take(*make_training_loader(*parts, sampler, 1, {}, with_threads(2)), *parts, 13);

  for (std::size_t row = 0; row < rows.size(); ++row) ASSERT_EQ(rows[row], samples[100 + row % 10]);
  EXPECT_THROW(assign_shards({.samples = 110, .workers = 3, .batch = 8}, *parts, ShardBy::files), UserError);
  EXPECT_EQ(assign_shards({.samples = 110, .workers = 3, .batch = 8}, *parts, ShardBy::samples).shares.size(),
            0U);
}

TEST_F(ClickLoader, ValidationReadsEverySampleOnceAndPadsWithEmptyBags) {
  for (const auto& set : data) {
    const std::vector<Sample> samples = test::read_all(*set);
    for (const std::int64_t workers : {1, 3, 7}) {
      std::vector<Sample> seen;
      for (std::int64_t worker = 0; worker < workers; ++worker) {
        const auto loader =
            make_validation_loader(*set, validation_shard(240, workers, worker), 50, with_threads(2));
        for (const Batch* batch = &loader->next(); batch->valid > 0; batch = &loader->next()) {
          for (std::size_t row = 0; row < 50; ++row) {
            const Sample sample = row_of(*batch, row, *set);
            if (static_cast<std::int64_t>(row) < batch->valid) {
              seen.push_back(sample);
            } else {
              ASSERT_TRUE(sample.ids.empty());
              ASSERT_EQ(sample.label, 0);
              ASSERT_TRUE(std::ranges::all_of(sample.dense, [](float value) { return value == 0.0F; }));
            }
          }
        }
      }
      EXPECT_EQ(seen, samples) << workers << " workers";
    }
  }
}

TEST_F(ClickLoader, AnEmptyShareIsABatchOfEmptyBags) {
  const auto loader = make_validation_loader(*data[0], {5, 5}, 8, with_threads(1));

  const Batch& batch = loader->next();

  EXPECT_EQ(batch.valid, 0);
  EXPECT_EQ(batch.bags.ends.size(), 8U * 26U);
  EXPECT_EQ(batch.bags.ends.back(), 0);
}

TEST_F(ClickLoader, ABadLineEndsTheLoaderWithItsPlace) {
  test::save_text(folder.path("bad"), test::criteo_text(0, 150) + "1\n" + test::criteo_text(151, 240));
  const auto bad = test::open_criteo(folder.path("bad"));
  const Sampler sampler(3, {.samples = 240, .workers = 1, .batch = 40, .order = SampleOrder::file});
  const auto loader = make_training_loader(*bad, sampler, 0, {}, with_threads(2));

  for (int good = 0; good < 3; ++good) loader->next();

  EXPECT_TRUE(test::mentions(test::error_of([&] { loader->next(); }), {"bad:151: has 1 column"}));
}

TEST_F(ClickLoader, CannotMixSamplesWithBags) {
  const Sampler sampler(3, {.samples = 240, .workers = 1, .batch = 40});
  LoaderOptions options = with_threads(1);
  options.mixup = 0.2;

  EXPECT_THROW(make_training_loader(*data[0], sampler, 0, {}, options), InternalError);
}

}  // namespace
}  // namespace flotilla
