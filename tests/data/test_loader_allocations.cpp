// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>

#include "src/data/loader.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

TEST(Loader, AllocatesNothingAfterItsConstruction) {
  const test::TemporaryFolder folder;
  test::save(folder.path("images"), test::gzip(test::images(200, 28, 28)));
  test::save(folder.path("labels"), test::labels(200, 10));
  const auto data = open_dataset(
      {}, {.given = true, .images = folder.path("images"), .labels = folder.path("labels")}, 10, 1);
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

}  // namespace
}  // namespace flotilla
