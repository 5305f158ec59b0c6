// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "src/data/loader.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {
std::atomic<long> allocations{0};

void* counted(std::size_t size, std::size_t alignment) {
  ++allocations;
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) {
  return counted(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

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
    const auto loader =
        make_training_loader(*data, sampler, 1, {}, {.threads = threads, .prefetch = 3, .sink = {}});
    const long before = allocations;

    for (int batch = 0; batch < 500; ++batch) loader->next();

    EXPECT_EQ(allocations - before, 0) << threads << " threads";
  }
  EXPECT_GT(allocations, 0);
}

}  // namespace
}  // namespace flotilla
