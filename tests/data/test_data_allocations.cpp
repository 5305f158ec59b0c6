// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "src/data/images/image_transform.hpp"
#include "src/data/loader.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

std::int64_t allocations(const Dataset& data, const Sharding& sharding, std::int64_t threads, int warm_up) {
  const Sampler sampler(1, sharding);
  const auto loader =
      make_training_loader(data, sampler, 1, {}, {.threads = threads, .prefetch = 3, .sink = {}});
  for (int batch = 0; batch < warm_up; ++batch) loader->next();
  const std::int64_t before = test::allocations_of_all_threads();
  for (int batch = 0; batch < 300; ++batch) loader->next();
  return test::allocations_of_all_threads() - before;
}

TEST(ClickDataset, KeepsOnlyWhereLinesBeginInMemory) {
  const test::TemporaryFolder folder;
  constexpr std::int64_t blocks = 100;
  for (std::int64_t k = 0; k < blocks; ++k)
    std::ofstream(folder.path("large"), std::ios::app) << test::criteo_text(1000 * k, 1000 * (k + 1));
  ASSERT_GT(std::filesystem::file_size(folder.path("large")), 20'000'000U);

  const std::int64_t most = test::most_bytes_over([&] {
    const auto data = test::open_criteo(folder.path("large"));
    const Sampler sampler(1,
                          {.samples = 1000 * blocks, .workers = 1, .batch = 100, .order = SampleOrder::file});
    const auto loader =
        make_training_loader(*data, sampler, 0, {}, {.threads = 1, .prefetch = 2, .sink = {}});
    for (std::int64_t batch = 0; batch < 10 * blocks; ++batch) loader->next();
  });

  // 20 MB of text; 8 bytes a line while they are few, doubled as the vector grows, and buffers remain.
  EXPECT_GT(most, 8 * 1000 * blocks);
  EXPECT_LT(most, 4'000'000);
}

TEST(ClickLoader, AllocatesNothingPerBatch) {
  const test::TemporaryFolder folder;
  test::save_text(folder.path("criteo"), test::criteo_text(0, 2000));
  test::save_text(folder.path("libsvm"), test::libsvm_text(0, 2000));
  const auto criteo = test::open_criteo(folder.path("criteo"));
  const auto libsvm = test::open_libsvm(folder.path("libsvm"));
  for (const std::int64_t threads : {0, 1, 2}) {
    for (const bool in_order : {false, true}) {
      const Sharding sharding{.samples = 2000,
                              .workers = 2,
                              .batch = 16,
                              .micro_steps = 2,
                              .order = in_order ? SampleOrder::file : SampleOrder::shuffled};

      EXPECT_EQ(allocations(*criteo, sharding, threads, 0), 0) << threads << " threads";
      // Bags of this data grow to the largest batch first.
      EXPECT_EQ(allocations(*libsvm, sharding, threads, 500), 0) << threads << " threads";
    }
  }
  EXPECT_GT(test::allocations_of_all_threads(), 0);
}

TEST(Loader, AllocatesNothingAfterItsConstruction) {
  const test::TemporaryFolder folder;
  test::save(folder.path("images"), test::gzip(test::images(200, 28, 28)));
  test::save(folder.path("labels"), test::labels(200, 10));
  const auto data = open_dataset({}, test::idx_source(folder.path("images"), folder.path("labels")), 10, 1);
  const Sampler sampler(1, {.samples = 200, .workers = 2, .batch = 16, .micro_steps = 2});
  for (const std::int64_t threads : {0, 1, 2}) {
    const auto loader = make_training_loader(
        *data, sampler, 1, {}, {.threads = threads, .prefetch = 3, .sink = {}, .bytes = threads == 1});
    const std::int64_t before = test::allocations_of_all_threads();

    for (int batch = 0; batch < 500; ++batch) loader->next();

    EXPECT_EQ(test::allocations_of_all_threads() - before, 0) << threads << " threads";
  }
  EXPECT_GT(test::allocations_of_all_threads(), 0);
}

TEST(ImageTransform, AllocatesNothingOnceItHasSeenTheLargestImage) {
  const std::vector<test::Bytes> files = {
      test::jpeg(test::busy(150, 97)), test::jpeg(test::busy(60, 80), {.progressive = true}),
      test::png(test::busy(120, 140)), test::png(test::busy(50, 40), {.interlaced = true, .orientation = 6})};
  std::vector<float> to(3 * 32 * 32);
  for (const auto filter : {ResizeFilter::bilinear, ResizeFilter::antialias}) {
    const ImageTransformSpec spec{.size = 32,
                                  .short_side = 40,
                                  .filter = filter,
                                  .jitter = {.brightness = 0.1, .hue = 0.1},
                                  .exif_orientation = true};
    const auto training = make_training_transform(spec);
    const auto validation = make_validation_transform(spec);
    const auto all = [&] {
      for (std::uint64_t variation = 0; variation < 100; ++variation) {
        for (const test::Bytes& file : files) {
          training->apply(test::file_of(file), variation, to);
          validation->apply(test::file_of(file), variation, to);
        }
      }
    };
    all();
    const std::int64_t before = test::allocations_of_this_thread();

    all();

    EXPECT_EQ(test::allocations_of_this_thread() - before, 0);
    EXPECT_GT(before, 0);
  }
}

}  // namespace
}  // namespace flotilla
