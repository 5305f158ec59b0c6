// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "src/data/loader.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

TEST(ImageDataset, TakesNoMoreMemoryForMoreImages) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) {
    test::save(folder.path(std::to_string(i) + ".jpg"), test::jpeg(test::busy(160 + i, 120)));
  }
  for (int i = 0; i < 3000; ++i) text += std::to_string(i % 20) + ".jpg 0\n";
  test::save(folder.path("train.txt"), {text.begin(), text.end()});
  DataConfig config;
  config.kind = DataKind::image_list;
  config.image_size = 64;
  config.short_side = 64;
  config.train.path = folder.path("train.txt");
  const auto data = open_dataset(config, config.train, 2, 1);
  const Sampler sampler(1, {.samples = 3000, .workers = 1, .batch = 20});
  const auto loader = make_training_loader(*data, sampler, 0, {}, {.threads = 2, .prefetch = 2, .sink = {}});
  for (int batch = 0; batch < 30; ++batch) loader->next();

  const std::int64_t most = test::most_bytes_over([&] {
    for (int batch = 30; batch < 150; ++batch) loader->next();
  });

  // 2,400 samples of 49 kB each would be 118 MB, their files 20 MB.
  EXPECT_LT(most, 2'000'000);
}

}  // namespace
}  // namespace flotilla
