// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>

#include "src/data/loader.hpp"
#include "tests/data/clicks/click_lines.hpp"
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

TEST(ClickLoader, AllocatesNothingPerBatch) {
  const test::TemporaryFolder folder;
  test::save_text(folder.path("criteo"), test::criteo_text(0, 2000));
  test::save_text(folder.path("libsvm"), test::libsvm_text(0, 2000));
  const auto criteo = test::open_criteo(folder.path("criteo"));
  const auto libsvm = test::open_libsvm(folder.path("libsvm"));
  for (const std::int64_t threads : {0, 1, 2}) {
    for (const bool in_order : {false, true}) {
      const Sharding sharding{
          .samples = 2000, .workers = 2, .batch = 16, .micro_steps = 2, .in_order = in_order};

      EXPECT_EQ(allocations(*criteo, sharding, threads, 0), 0) << threads << " threads";
      // Bags of this data grow to the largest batch first.
      EXPECT_EQ(allocations(*libsvm, sharding, threads, 500), 0) << threads << " threads";
    }
  }
  EXPECT_GT(test::allocations_of_all_threads(), 0);
}

}  // namespace
}  // namespace flotilla
