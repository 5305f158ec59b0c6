// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/arrays/chunked_array.hpp"
#include "src/data/dataset.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/arrays/opened_arrays.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::bytes_of;
using test::config;
using test::expect_counted;
using test::is_counted;
using test::labels_of;
using test::open;
using test::sample_of;
using test::values_of;

using Kind = NumberType::Kind;
constexpr NumberType u8{};
constexpr NumberType f32{Kind::f32};

std::vector<NumberType> all_types() {
  std::vector<NumberType> types;
  for (int kind = 0; kind <= static_cast<int>(Kind::f64); ++kind)
    for (const bool big : {false, true}) types.push_back({static_cast<Kind>(kind), big});
  return types;
}

DataConfig unscaled(DataKind kind, NumberType type) {
  DataConfig data = config(kind);
  if (type.is_byte()) data.mean = 0.0;
  if (type.is_byte()) data.std = 1.0;
  return data;
}

using ArrayDatasets = test::InFolder;
using ArrayChunks = test::InFolder;

TEST_F(ArrayDatasets, ReadsAllNumberTypesOfHdf5) {
  for (const NumberType type : all_types()) {
    for (const test::Hdf5Layout& layout :
         {test::Hdf5Layout{}, test::Hdf5Layout{.chunk = {4, 3, 5}, .shuffle = true, .deflate = 6},
          test::Hdf5Layout{.compact = true}}) {
      test::save_hdf5(folder.path("a.h5"), {test::counted("images", type, {11, 3, 5}), labels_of(11)},
                      layout);
      const auto data = open(unscaled(DataKind::hdf5, type), folder.path("a.h5"));
      EXPECT_EQ(data->sample_shape(), (Shape{1, 3, 5}));
      expect_counted(*data, type, 11);
    }
  }
}

TEST_F(ArrayDatasets, DoesNotUndoFiltersThatAChunkDidNotGoThrough) {
  const FilterPipeline pipeline{.filters = {ChunkFilter::shuffle, ChunkFilter::deflate}, .number_bytes = 2};
  const std::vector<std::byte> stored{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::vector<std::byte> decoded(4);
  decode_chunk(pipeline, stored, 0b11, decoded);
  EXPECT_EQ(decoded, stored);
  decode_chunk(pipeline, stored, 0b10, decoded);
  EXPECT_EQ(decoded, (std::vector<std::byte>{std::byte{1}, std::byte{3}, std::byte{2}, std::byte{4}}));
}

TEST_F(ArrayDatasets, DealsWholeChunks) {
  test::save_hdf5(folder.path("a.h5"), {test::counted("images", f32, {12, 3}), labels_of(12)},
                  {.chunk = {5, 3}});
  EXPECT_EQ(open(config(DataKind::hdf5), folder.path("a.h5"))->deal(ShardBy::bytes, 2),
            (std::vector<std::int64_t>{0, 5, 12}));
}

TEST_F(ArrayDatasets, DealsItsChunksWhenItIsAugmentedOrStagedToo) {
  test::save_hdf5(folder.path("a.h5"), {test::counted("images", u8, {12, 1, 8, 8}), labels_of(12)},
                  {.chunk = {5, 1, 8, 8}});
  DataConfig data = config(DataKind::hdf5);
  data.flip = 0.5;
  DataSourceConfig source = test::source_at(folder.path("a.h5"));
  for (const std::string& staged : {std::string(), folder.path("")}) {
    source.staged_below = staged;
    EXPECT_EQ(open_dataset(data, source, 10, 1)->deal(ShardBy::bytes, 2),
              (std::vector<std::int64_t>{0, 5, 12}));
  }
}

TEST_F(ArrayDatasets, IsAnotherOneWhereTargetsDiffer) {
  const auto identity = [&](double target) {
    test::save_hdf5(folder.path("a.h5"), {test::counted("images", f32, {2, 3}),
                                          test::of_values("labels", f32, {2}, {0.5, target})});
    return identity_of(*open(config(DataKind::hdf5), folder.path("a.h5"), 0, 1));
  };
  EXPECT_EQ(identity(1.0), identity(1.0));
  EXPECT_NE(identity(1.0), identity(2.0));
}

TEST_F(ArrayDatasets, ReadsMoreChunksThanAreListed) {
  const std::int64_t samples = 9000;
  test::save_hdf5(folder.path("a.h5"), {test::counted("images", f32, {samples, 4}), labels_of(samples)},
                  {.chunk = {1, 4}, .shuffle = true, .deflate = 1});
  expect_counted(*open(config(DataKind::hdf5), folder.path("a.h5")), f32, samples);

  test::save_hdf5(folder.path("b.h5"), {test::counted("images", f32, {samples, 4})},
                  {.chunk = {1, 2}, .written_rows = 5});
  DataConfig data = config(DataKind::hdf5);
  data.targets = "images";
  const auto opened = open(data, folder.path("b.h5"), 10, 4);
  EXPECT_TRUE(is_counted(values_of(*opened, 4)[3], 19));
  EXPECT_EQ(values_of(*opened, samples - 1), std::vector<float>(4, 0.0F));
}

TEST_F(ArrayDatasets, ReadsNumPysFormats) {
  for (const NumberType type : all_types()) {
    const auto inputs = test::counted("images", type, {7, 5});
    for (const test::ZipForm form :
         {test::ZipForm{}, test::ZipForm{.deflated = true}, test::ZipForm{.zip64 = true}}) {
      test::save(folder.path("a.npz"), test::npz({inputs, labels_of(7)}, form));
      const auto data = open(unscaled(DataKind::numpy, type), folder.path("a.npz"));
      EXPECT_EQ(data->sample_shape(), (Shape{5}));
      expect_counted(*data, type, 7);
    }
    for (const int version : {1, 2, 3}) {
      test::save(folder.path("images.npy"), test::npy(inputs, version));
      test::save(folder.path("labels.npy"), test::npy(labels_of(7), version));
      expect_counted(*open(unscaled(DataKind::numpy, type), folder.path()), type, 7);
    }
  }
}

TEST_F(ArrayDatasets, HasTheBitsOfIdx) {
  test::save(folder.path("images"), test::images(25, 9, 13));
  test::save(folder.path("labels"), test::labels(25, 10));
  const test::Bytes idx = test::images(25, 9, 13);
  const test::StoredArray images{"images", u8, {25, 9, 13}, {idx.begin() + 16, idx.end()}};
  test::save_hdf5(folder.path("a.h5"), {images, labels_of(25)}, {.chunk = {4, 9, 13}, .deflate = 1});
  test::save(folder.path("a.npz"), test::npz({images, labels_of(25)}));

  DataConfig expected = config(DataKind::idx);
  expected.mean = 0.1307;
  expected.std = 0.3081;
  const auto digits =
      open_dataset(expected, test::idx_source(folder.path("images"), folder.path("labels")), 10, 1);
  for (const DataKind kind : {DataKind::hdf5, DataKind::numpy}) {
    DataConfig data = expected;
    data.kind = kind;
    const auto arrays = open(data, folder.path(kind == DataKind::hdf5 ? "a.h5" : "a.npz"));
    ASSERT_EQ(arrays->sample_shape(), digits->sample_shape());
    ASSERT_EQ(arrays->scaling(), digits->scaling());
    for (std::int64_t i = 0; i < 25; ++i) {
      EXPECT_EQ(sample_of(*arrays, i).label, sample_of(*digits, i).label);
      EXPECT_EQ(values_of(*arrays, i), values_of(*digits, i));
      EXPECT_EQ(bytes_of(*arrays, i), bytes_of(*digits, i));
    }
  }
}

TEST_F(ArrayDatasets, ChannelsMayComeLast) {
  for (const NumberType type : {u8, f32, NumberType{Kind::i16, true}, NumberType{Kind::f64}}) {
    std::vector<double> first(2 * 3 * 4 * 5);
    std::vector<double> last(first.size());
    for (std::size_t n = 0; n < 2; ++n)
      for (std::size_t c = 0; c < 3; ++c)
        for (std::size_t p = 0; p < 20; ++p)
          first[(n * 3 + c) * 20 + p] = last[(n * 20 + p) * 3 + c] = static_cast<double>(n * 60 + c * 20 + p);
    test::save(folder.path("first.npz"),
               test::npz({test::of_values("images", type, {2, 3, 4, 5}, first), labels_of(2)}));
    test::save(folder.path("last.npz"),
               test::npz({test::of_values("images", type, {2, 4, 5, 3}, last), labels_of(2)}));
    DataConfig data = config(DataKind::numpy);
    data.input_mean = {0.1, 0.2, 0.3};
    data.input_std = {0.5, 0.25, 2.0};
    const auto expected = open(data, folder.path("first.npz"));
    data.channels_last = true;
    const auto opened = open(data, folder.path("last.npz"));
    ASSERT_EQ(opened->sample_shape(), (Shape{3, 4, 5}));
    EXPECT_EQ(values_of(*opened, 1), values_of(*expected, 1)) << type.text();
    const double raw = (60.0 + 20.0 + 7.0) / (type.is_byte() ? 255.0 : 1.0);
    EXPECT_TRUE(test::within(values_of(*opened, 1)[27], (raw - 0.2) / 0.25, 1e-4));
    ASSERT_EQ(opened->scaling().has_value(), type.is_byte());
    if (!type.is_byte()) continue;
    EXPECT_EQ(bytes_of(*opened, 1), bytes_of(*expected, 1));
    EXPECT_EQ(bytes_of(*opened, 1)[7 * 3 + 1], 60 + 20 + 7);
  }
}

TEST_F(ArrayDatasets, ReadsChunksThatWereNeverWrittenWithoutRoomForThem) {
  DataConfig data = config(DataKind::hdf5);
  data.targets = "images";
  data.cache_mb = 1;
  // A chunk of 2 MB, more than the cache holds.
  const test::StoredArray wide = test::counted("images", f32, {8, 65536});
  test::save_hdf5(folder.path("a.h5"), {wide}, {.chunk = {8, 65536}, .written_rows = 0});
  test::save_hdf5(folder.path("b.h5"), {test::counted("images", f32, {9, 4})},
                  {.chunk = {2, 3}, .written_rows = 4, .no_fill_value = true});
  std::vector<float> row(65536, 1.0F);
  open(data, folder.path("a.h5"), 10, 65536)->read(7, 0, row);
  EXPECT_EQ(row, std::vector<float>(65536, 0.0F));
  row.assign(4, 1.0F);
  const auto opened = open(data, folder.path("b.h5"), 10, 4);
  opened->read(8, 0, row);
  EXPECT_EQ(row, std::vector<float>(4, 0.0F));
  EXPECT_TRUE(is_counted(values_of(*opened, 3)[3], 15));
}

TEST_F(ArrayDatasets, NormalisesFeaturesAndTargets) {
  const NumberType f64{Kind::f64};
  test::save_hdf5(folder.path("a.h5"), {test::of_values("run/x", f64, {2, 2}, {1e9 + 1, 3, 1e9 + 2, 5}),
                                        test::of_values("run/y", f64, {2, 2}, {1, 10, 2, 30})});
  DataConfig data = config(DataKind::hdf5);
  data.inputs = "run/x";
  data.targets = "/run/y";
  data.input_mean = {1e9, 4.0};
  data.input_std = {1.0, 0.5};
  data.target_mean = {0.0, 20.0};
  data.target_std = {1.0, 10.0};
  const auto opened = open(data, folder.path("a.h5"), 0, 2);

  EXPECT_EQ(opened->target_width(), 2);
  EXPECT_EQ(sample_of(*opened, 0).label, 0);
  EXPECT_EQ(values_of(*opened, 0), (std::vector<float>{1, -2}));
  EXPECT_EQ(values_of(*opened, 1), (std::vector<float>{2, 2}));
  EXPECT_EQ(test::targets_of(*opened, 1), (std::vector<float>{2, 1}));
}

TEST_F(ArrayDatasets, JoinsFilesInByteOrderOfTheirNames) {
  test::save_hdf5(folder.path("part-10.h5"), {test::counted("images", f32, {4, 3}), labels_of(4)});
  test::save_hdf5(folder.path("part-9.h5"), {test::counted("images", f32, {5, 3}, 50), labels_of(5)},
                  {.chunk = {2, 3}});
  test::save(folder.path("README.txt"), {});
  for (const std::string& path : {folder.path(), folder.path("part-*.h5")}) {
    const auto data = open(config(DataKind::hdf5), path);
    ASSERT_EQ(data->size(), 9);
    EXPECT_EQ(sample_of(*data, 3).label, 3);
    EXPECT_TRUE(is_counted(values_of(*data, 3)[0], 9));
    EXPECT_EQ(sample_of(*data, 5).label, 1);
    EXPECT_TRUE(is_counted(values_of(*data, 5)[0], 3, 50));
    EXPECT_EQ(data->deal(ShardBy::files, 2), (std::vector<std::int64_t>{0, 4, 9}));
    EXPECT_EQ(data->deal(ShardBy::bytes, 2), (std::vector<std::int64_t>{0, 4, 9}));
    EXPECT_EQ(data->deal(ShardBy::bytes, 3), (std::vector<std::int64_t>{0, 3, 6, 9}));
  }
}

TEST_F(ArrayDatasets, ReadsBothSetsOfCifar) {
  test::Bytes ten;
  test::Bytes hundred;
  for (int i = 0; i < 3; ++i) {
    ten.push_back(static_cast<std::uint8_t>(i + 4));
    hundred.push_back(static_cast<std::uint8_t>(i + 10));
    hundred.push_back(static_cast<std::uint8_t>(i + 90));
    for (int k = 0; k < 3072; ++k) {
      ten.push_back(static_cast<std::uint8_t>(i + k));
      hundred.push_back(static_cast<std::uint8_t>(i + k));
    }
  }
  test::save(folder.path("data_batch_1.bin"), ten);
  test::save(folder.path("data_batch_2.bin"), ten);
  test::save(folder.path("test_batch.bin"), ten);
  test::save(folder.path("fine.bin"), hundred);
  DataConfig data = config(DataKind::cifar);
  data.image_mean = {0.0, 0.0, 0.5};
  data.image_std = {1.0, 1.0, 0.5};
  const auto check = [&](const std::string& path, std::int64_t classes, std::int64_t samples,
                         std::int32_t label) {
    const auto opened = open(data, path, classes);
    EXPECT_EQ(opened->size(), samples);
    EXPECT_EQ(opened->sample_shape(), (Shape{3, 32, 32}));
    const test::LabelledSample image = sample_of(*opened, 1);
    EXPECT_EQ(image.label, label);
    EXPECT_TRUE(test::within_float_roundings(image.values[0], 1.0F / 255.0F, 4));
    EXPECT_TRUE(test::within(image.values[2048 + 5], ((2048 + 6) % 256 / 255.0 - 0.5) / 0.5, 1e-6));
    EXPECT_EQ(bytes_of(*opened, 1)[3 * 700 + 2], (2048 + 700 + 1) % 256);
  };
  check(folder.path(), 10, 6, 5);
  check(folder.path("test_batch.bin"), 10, 3, 5);
  check(folder.path("fine.bin"), 100, 3, 91);
  check(folder.path("fine.bin"), 20, 3, 11);
  EXPECT_THROW(open(data, folder.path("fine.bin"), 30), UserError);
}

TEST_F(ArrayChunks, ReadsChunksOfAllShapesAndFilters) {
  const NumberType type{Kind::i16};
  for (const std::vector<std::int64_t>& chunk :
       {std::vector<std::int64_t>{1, 2, 6, 4}, {5, 2, 6, 4}, {4, 1, 4, 3}, {64, 2, 6, 4}}) {
    for (const test::Hdf5Layout& layout :
         {test::Hdf5Layout{.chunk = chunk}, test::Hdf5Layout{.chunk = chunk, .deflate = 1},
          test::Hdf5Layout{.chunk = chunk, .shuffle = true, .deflate = 9},
          test::Hdf5Layout{.chunk = chunk, .shuffle = true, .deflate = 4, .fletcher32 = true},
          test::Hdf5Layout{.chunk = chunk, .fletcher32 = true}}) {
      test::save_hdf5(folder.path("a.h5"), {test::counted("images", type, {13, 2, 6, 4}), labels_of(13)},
                      layout);
      expect_counted(*open(config(DataKind::hdf5), folder.path("a.h5")), type, 13);
    }
  }
}

TEST_F(ArrayChunks, InflatesChunksThatAreShuffledAndExceedTheCacheTogether) {
  const NumberType type{Kind::i16};
  DataConfig data = config(DataKind::hdf5);
  data.cache_mb = 1;
  const auto is_inflated = [](const Dataset& opened) {
    return opened.description().find(", inflated in ") != std::string::npos;
  };
  // 640 kB each; the numbers of the second file continue those of the first.
  for (const std::vector<std::int64_t>& chunk :
       {std::vector<std::int64_t>{7, 2, 20, 20}, {400, 1, 20, 20}, {64, 2, 20, 3}}) {
    const test::Hdf5Layout layout{.chunk = chunk, .shuffle = true, .deflate = 1};
    test::save_hdf5(folder.path("a1.h5"), {test::counted("images", type, {400, 2, 20, 20}), labels_of(400)},
                    layout);
    test::save_hdf5(folder.path("a2.h5"),
                    {test::counted("images", type, {400, 2, 20, 20}, 7 * 400 * 800 % 120), labels_of(400)},
                    layout);
    for (const SampleOrder order : {SampleOrder::shuffled, SampleOrder::blocks, SampleOrder::file}) {
      data.order = order;
      const auto opened = open(data, folder.path("a*.h5"));
      EXPECT_EQ(is_inflated(*opened), order == SampleOrder::shuffled) << opened->description();
      expect_counted(*opened, type, 800);
    }
    data.order = SampleOrder::shuffled;
    EXPECT_FALSE(is_inflated(*open(data, folder.path("a1.h5")))) << "the cache holds it";
    data.cache_mb = 2;
    EXPECT_FALSE(is_inflated(*open(data, folder.path("a*.h5")))) << "the cache holds both";
    data.cache_mb = 1;
  }
  ::setenv("TMPDIR", folder.path("nowhere").c_str(), 1);
  EXPECT_TRUE(test::mentions(test::error_of([&] { open(data, folder.path("a*.h5")); }),
                             {"images (data.order = \"blocks\" needs none)", "set TMPDIR"}));
  ::unsetenv("TMPDIR");
}

TEST_F(ArrayChunks, ReadsChunksBehindABlockOfTheUsersAndThoseThatWereNeverWritten) {
  test::save_hdf5(folder.path("a.h5"), {test::counted("images", f32, {9, 4}), labels_of(9)},
                  {.chunk = {2, 4}, .deflate = 1}, 512);
  expect_counted(*open(config(DataKind::hdf5), folder.path("a.h5")), f32, 9);

  test::save_hdf5(folder.path("b.h5"), {test::counted("images", f32, {9, 4})},
                  {.chunk = {2, 4}, .written_rows = 4});
  test::save_hdf5(folder.path("c.h5"), {test::counted("images", f32, {9, 4})},
                  {.chunk = {2, 3}, .written_rows = 4});
  for (const char* name : {"b.h5", "c.h5"}) {
    DataConfig data = config(DataKind::hdf5);
    data.targets = "images";
    const auto opened = open(data, folder.path(name), 10, 4);
    EXPECT_TRUE(test::is_counted(values_of(*opened, 3)[3], 15));
    EXPECT_EQ(values_of(*opened, 8), std::vector<float>(4, 0.0F));
  }
}

TEST_F(ArrayChunks, TakesTheFillValueForWhatWasNeverWritten) {
  for (const bool big_endian : {false, true}) {
    for (const std::int64_t columns : {4, 3}) {
      const NumberType type{Kind::i16, big_endian};
      test::save_hdf5(folder.path("a.h5"), {test::counted("images", type, {9, 4})},
                      {.chunk = {2, columns}, .deflate = 1, .written_rows = 4, .fill_value = 258.0});
      DataConfig data = config(DataKind::hdf5);
      data.targets = "images";
      EXPECT_EQ(values_of(*open(data, folder.path("a.h5"), 10, 4), 8), std::vector<float>(4, 258.0F));
    }
  }
}

}  // namespace
}  // namespace flotilla
