// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/dataset.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/arrays/opened_arrays.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::config;
using test::expect_counted;
using test::labels_of;
using test::open;
using Kind = NumberType::Kind;
constexpr NumberType f32{Kind::f32};

TEST(ArrayChunks, ReadsChunksOfAllShapesAndFilters) {
  const test::TemporaryFolder folder;
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

TEST(ArrayChunks, InflatesChunksThatAreShuffledAndExceedTheCacheTogether) {
  const test::TemporaryFolder folder;
  const NumberType type{Kind::i16};
  DataConfig data = config(DataKind::hdf5);
  data.cache_mb = 1;
  const auto is_inflated = [](const Dataset& opened) {
    return opened.description().find(", inflated in ") != std::string::npos;
  };
  // 640 kB each; the numbers of the second file go on where those of the first end.
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
  try {
    open(data, folder.path("a*.h5"));
    ADD_FAILURE() << "made without a folder";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("images (data.order = \"blocks\" needs none)"), std::string::npos) << text;
    EXPECT_NE(text.find("set TMPDIR"), std::string::npos) << text;
  }
  ::unsetenv("TMPDIR");
}

TEST(ArrayChunks, ReadsChunksBehindABlockOfTheUsersAndThoseThatWereNeverWritten) {
  const test::TemporaryFolder folder;
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
    std::vector<float> sample(4);
    opened->read(3, 0, sample);
    EXPECT_TRUE(test::within_float_roundings(sample[3], static_cast<float>(test::counted_value(f32, 15)), 4));
    opened->read(8, 0, sample);
    EXPECT_EQ(sample, std::vector<float>(4, 0.0F));
  }
}

TEST(ArrayChunks, TakesTheFillValueForWhatWasNeverWritten) {
  const test::TemporaryFolder folder;
  for (const bool big_endian : {false, true}) {
    for (const std::int64_t columns : {4, 3}) {
      const NumberType type{Kind::i16, big_endian};
      test::save_hdf5(folder.path("a.h5"), {test::counted("images", type, {9, 4})},
                      {.chunk = {2, columns}, .deflate = 1, .written_rows = 4, .fill_value = 258.0});
      DataConfig data = config(DataKind::hdf5);
      data.targets = "images";
      std::vector<float> sample(4);
      open(data, folder.path("a.h5"), 10, 4)->read(8, 0, sample);
      EXPECT_EQ(sample, std::vector<float>(4, 258.0F));
    }
  }
}

}  // namespace
}  // namespace flotilla
