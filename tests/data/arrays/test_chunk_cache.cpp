// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "src/data/arrays/chunked_array.hpp"

namespace flotilla {
namespace {

void fill(std::span<std::byte> to, std::uint64_t chunk) {
  for (std::byte& byte : to) byte = static_cast<std::byte>(chunk);
}

TEST(ChunkCache, DecodesAChunkOnceForAllThreads) {
  ChunkCache cache(1 << 20);
  const std::uint64_t array = cache.new_array();
  std::atomic<int> decoded{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        for (std::uint64_t chunk = 0; chunk < 100; ++chunk) {
          const auto bytes = cache.get(array, chunk, 1000, [&](std::span<std::byte> to) {
            ++decoded;
            fill(to, chunk);
          });
          EXPECT_EQ(bytes[999], static_cast<std::byte>(chunk));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(decoded, 100);
}

TEST(ChunkCache, KeepsThoseThatWereUsedLast) {
  ChunkCache cache(3000);
  const std::uint64_t one = cache.new_array();
  const std::uint64_t other = cache.new_array();
  int decoded = 0;
  const auto get = [&](std::uint64_t array, std::uint64_t chunk) {
    const int before = decoded;
    cache.get(array, chunk, 1000, [&](std::span<std::byte> to) {
      ++decoded;
      fill(to, chunk);
    });
    return decoded > before;
  };
  EXPECT_TRUE(get(one, 0));
  EXPECT_TRUE(get(one, 1));
  EXPECT_TRUE(get(other, 0));
  EXPECT_FALSE(get(one, 0));
  EXPECT_TRUE(get(one, 2));  // takes the place of chunk 1
  EXPECT_FALSE(get(one, 0));
  EXPECT_FALSE(get(other, 0));
  EXPECT_TRUE(get(one, 1));
}

TEST(ChunkCache, ForgetsAChunkThatCannotBeDecoded) {
  ChunkCache cache(3000);
  const std::uint64_t array = cache.new_array();
  const auto fail = [](std::span<std::byte>) { throw std::runtime_error("damaged"); };
  EXPECT_THROW(cache.get(array, 7, 1000, fail), std::runtime_error);
  EXPECT_EQ(cache.get(array, 7, 1000, [](std::span<std::byte> to) { fill(to, 9); })[0], std::byte{9});
}

}  // namespace
}  // namespace flotilla
