// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/dataset.hpp"
#include "src/data/held_back.hpp"
#include "tests/data/arrays/opened_arrays.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/messages.hpp"

// data.validation.share: the training samples in two parts, of every kind of data whose samples have numbers.

namespace flotilla {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers all_of(std::int64_t samples) {
  Numbers all(static_cast<std::size_t>(samples));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  return all;
}

TEST(HeldBackSamples, AreAShareAndAllOthersAreTheRest) {
  for (const std::int64_t samples : {2, 3, 10, 999, 5000})
    for (const double share : {0.001, 0.1, 0.25, 0.5, 0.999}) {
      const Numbers held = samples_of_part(samples, share, SamplePart::held_back);
      const Numbers rest = samples_of_part(samples, share, SamplePart::training);
      EXPECT_EQ(std::ssize(held),
                std::clamp<std::int64_t>(std::llround(share * static_cast<double>(samples)), 1, samples - 1));
      EXPECT_TRUE(std::ranges::is_sorted(held) && std::ranges::is_sorted(rest));
      Numbers both;
      std::ranges::merge(held, rest, std::back_inserter(both));
      EXPECT_EQ(both, all_of(samples));  // each of them once
    }
  EXPECT_NE(test::error_of([] { samples_of_part(1, 0.5, SamplePart::training); }).find("two samples"),
            std::string::npos);
}

// Checkpoints rely on them: another hash would train on samples that were held back.
TEST(HeldBackSamples, StayTheSameForEver) {
  EXPECT_EQ(samples_of_part(100, 0.1, SamplePart::held_back), (Numbers{1, 5, 9, 14, 23, 41, 43, 79, 93, 99}));
}

TEST(HeldBackSamples, MostlyStayWhereSamplesAreAppended) {
  const Numbers before = samples_of_part(1000, 0.2, SamplePart::held_back);
  const Numbers after = samples_of_part(1100, 0.2, SamplePart::held_back);
  const auto moved =
      std::ranges::count_if(before, [&](std::int64_t i) { return !std::ranges::binary_search(after, i); });
  EXPECT_LT(moved, 20);
}

class HeldBack : public test::InFolder {
 protected:
  static constexpr std::int64_t samples = 40;
  static constexpr double share = 0.3;

  DataConfig kind_at(DataKind kind, const std::string& path) const {
    DataConfig data = test::config(kind);
    data.train = test::source_at(folder.path(path));
    return data;
  }
  static std::unique_ptr<Dataset> open(DataConfig data, double part, bool training, std::int64_t targets) {
    data.validation.share = part;
    return open_dataset(data, data.train, 0, 1, {.training = training, .targets = targets});
  }
  /// Opens the whole and its parts, and calls `expect_same(part, i, all, number)` for each sample of each.
  template <class ExpectSame>
  void expect_parts(const DataConfig& data, std::int64_t targets, const ExpectSame& expect_same) const {
    const auto all = open(data, 0.0, true, targets);
    ASSERT_EQ(all->size(), samples);
    for (const bool training : {true, false}) {
      SCOPED_TRACE(training ? "training" : "held back");
      const auto part = open(data, share, training, targets);
      const Numbers numbers =
          samples_of_part(samples, share, training ? SamplePart::training : SamplePart::held_back);
      ASSERT_EQ(part->size(), std::ssize(numbers));
      EXPECT_EQ(part->description(), cat(numbers.size(), " of ", all->description()));
      EXPECT_NE(identity_of(*part), identity_of(*all));
      for (std::int64_t i = 0; i < part->size(); ++i)
        expect_same(*part, i, *all, numbers[static_cast<std::size_t>(i)]);
    }
  }
  static void expect_same_values(const Dataset& part, std::int64_t i, const Dataset& all,
                                 std::int64_t of_all) {
    const test::LabelledSample one = test::sample_of(part, i);
    const test::LabelledSample other = test::sample_of(all, of_all);
    EXPECT_EQ(one.values, other.values);
    EXPECT_EQ(one.label, other.label);
    EXPECT_EQ(part.label(i), other.label);
  }
};

TEST_F(HeldBack, AreTheSamplesOfArraysAndTheirTargets) {
  const NumberType f32{NumberType::Kind::f32};
  const std::vector<test::StoredArray> arrays = {test::counted("images", f32, {samples, 3}),
                                                 test::counted("labels", f32, {samples, 2}, 5)};
  test::save_hdf5(folder.path("a.h5"), arrays, {.chunk = {7, 3}, .deflate = 1});
  test::save(folder.path("a.npz"), test::npz(arrays));
  for (const auto& data : {kind_at(DataKind::hdf5, "a.h5"), kind_at(DataKind::numpy, "a.npz")})
    expect_parts(data, 2, [](const Dataset& part, std::int64_t i, const Dataset& all, std::int64_t of_all) {
      EXPECT_EQ(test::values_of(part, i), test::values_of(all, of_all));
      EXPECT_EQ(test::targets_of(part, i), test::targets_of(all, of_all));
    });
}

TEST_F(HeldBack, AreTheDigitsOfIdxFilesAndTheirBytes) {
  test::save(folder.path("images"), test::images(samples, 3, 3));
  test::save(folder.path("labels"), test::labels(samples, 10));
  DataConfig data = test::config(DataKind::idx);
  data.train = test::idx_source(folder.path("images"), folder.path("labels"));
  expect_parts(data, 0, [](const Dataset& part, std::int64_t i, const Dataset& all, std::int64_t of_all) {
    expect_same_values(part, i, all, of_all);
    EXPECT_EQ(test::bytes_of(part, i), test::bytes_of(all, of_all));
  });
}

TEST_F(HeldBack, AreTheBagsOfLibsvmLines) {
  test::save_text(folder.path("a.svm"), test::libsvm_text(0, samples));
  const DataConfig data = kind_at(DataKind::libsvm, "a.svm");
  const std::vector<test::Sample> all = test::read_all(*open(data, 0.0, true, 0));
  for (const bool training : {true, false}) {
    const Numbers numbers =
        samples_of_part(samples, share, training ? SamplePart::training : SamplePart::held_back);
    const std::vector<test::Sample> part = test::read_all(*open(data, share, training, 0));
    ASSERT_EQ(part.size(), numbers.size());
    for (std::size_t i = 0; i < part.size(); ++i)
      EXPECT_EQ(part[i], all[static_cast<std::size_t>(numbers[i])]);
  }
}

TEST_F(HeldBack, AreTheImagesOfAFolderWithTheTransformOfValidation) {
  for (std::int64_t i = 0; i < samples; ++i) {
    std::filesystem::create_directories(folder.path(cat("photos/", i % 2)));
    test::save(folder.path(cat("photos/", i % 2, "/", i, ".png")),
               test::png(test::pattern(static_cast<int>(8 + i), 8), {}));
  }
  DataConfig data = kind_at(DataKind::image_folder, "photos");
  data.image_size = 8;
  data.short_side = 8;
  data.validation = data.train;  // the same images as another set: how validation reads them
  const auto all = open_dataset(data, data.validation, 2, 1, {.training = false});
  data.validation = {};
  const auto part = open(data, share, false, 0);
  const Numbers numbers = samples_of_part(samples, share, SamplePart::held_back);
  for (std::int64_t i = 0; i < part->size(); ++i) {
    expect_same_values(*part, i, *all, numbers[static_cast<std::size_t>(i)]);
    EXPECT_EQ(part->name(i), all->name(numbers[static_cast<std::size_t>(i)]));
  }
}

TEST_F(HeldBack, OfCifarLieInTheFilesOfTraining) {
  test::Bytes file;
  for (std::int64_t i = 0; i < samples; ++i)
    file.resize(file.size() + 3073, static_cast<std::uint8_t>(i % 10));
  std::filesystem::create_directories(folder.path("cifar"));
  test::save(folder.path("cifar/data_batch_1.bin"), file);
  DataConfig data = kind_at(DataKind::cifar, "cifar");
  data.validation.share = share;
  EXPECT_EQ(open_dataset(data, data.train, 10, 1, {.training = false})->size(), 12);
}

TEST_F(HeldBack, DivideSharesOfWorkersWhereTheFilesDo) {
  const NumberType f32{NumberType::Kind::f32};
  for (const char* name : {"a.h5", "b.h5"})
    test::save_hdf5(folder.path(name),
                    {test::counted("images", f32, {samples / 2, 3}), test::labels_of(samples / 2)});
  const auto part = open(kind_at(DataKind::hdf5, "?.h5"), share, true, 0);
  const Numbers numbers = samples_of_part(samples, share, SamplePart::training);
  const auto second = std::ranges::lower_bound(numbers, samples / 2) - numbers.begin();
  EXPECT_EQ(part->deal(ShardBy::files, 2), (Numbers{0, second, part->size()}));
}

TEST_F(HeldBack, SayNothingOfATableButItsClasses) {
  const Numbers held = samples_of_part(samples, share, SamplePart::held_back);
  std::string text = "x,c,y\n";
  double sum = 0.0;
  int known = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    const bool is_held = std::ranges::binary_search(held, i);
    const bool missing = i % 5 == 0;
    if (!is_held && !missing) sum += static_cast<double>(i);
    if (!is_held && !missing) ++known;
    text += cat(missing ? "" : cat(is_held ? 1000 + i : i),
                is_held      ? ",Paris,"
                : i % 2 == 0 ? ",Bonn,"
                             : ",Ulm,",
                i == held.front() ? "rare" : "usual", "\n");
  }
  test::save_text(folder.path("a.csv"), text);
  DataConfig data = kind_at(DataKind::csv, "a.csv");
  data.table.target_columns = {"y"};
  data.table.categories = {"c"};
  data.table.fill_missing = "mean";
  data.validation.share = share;
  const DatasetUse use;
  FoundInData found;
  csv_reader.find({.data = data, .source = data.train, .classes = any_classes, .use = use}, found);
  EXPECT_EQ(found.categories, (std::vector<std::vector<std::string>>{{}, {"Bonn", "Ulm"}}));
  EXPECT_EQ(found.fills, (std::vector<double>{sum / known, 0.0}));
  EXPECT_EQ(found.classes, (std::vector<std::string>{"rare", "usual"}));
  data.found = found;
  const auto part = open_dataset(data, data.train, 2, 1, {.training = false});
  EXPECT_EQ(test::values_of(*part, 0).front(), held.front() % 5 == 0
                                                   ? static_cast<float>(sum / known)
                                                   : 1000.0F + static_cast<float>(held.front()));
  EXPECT_EQ(part->label(0), 0);
  ASSERT_EQ(part->facts().warnings.size(), 1U);
  EXPECT_NE(part->facts().warnings.front().find("\"Paris\""), std::string::npos);
}

}  // namespace
}  // namespace flotilla
