// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/data/arrays/array_files.hpp"
#include "tests/runs/program.hpp"

// Memory of a training on compressed arrays that are larger than data.cache_mb.

namespace flotilla {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t width = 4096;
constexpr std::int64_t chunk_rows = 64;
constexpr std::int64_t chunk_bytes = chunk_rows * width;
constexpr std::int64_t cache_mb = 4;
constexpr std::int64_t threads = 2;

/// Writes gzip chunks of `rows` samples and their labels.
void write_samples(const std::string& path, std::int64_t rows) {
  test::StoredArray images{"images", {}, {rows, width}, test::Bytes(static_cast<std::size_t>(rows * width))};
  for (std::size_t k = 0; k < images.bytes.size(); ++k) images.bytes[k] = static_cast<std::uint8_t>(k % 251);
  const test::StoredArray labels{"labels", {}, {rows}, test::Bytes(static_cast<std::size_t>(rows))};
  test::save_hdf5(path, {images, labels}, {.chunk = {chunk_rows, width}, .deflate = 1});
}

/// Bytes of memory of the largest process of a training on one rank, at its peak.
std::int64_t peak_of_training(const std::string& path, const std::string& order, const std::string& output) {
  int ends[2] = {-1, -1};
  if (pipe(ends) != 0) return -1;
  // Runs in a process of its own, which has no other children that would be measured.
  const pid_t measured = fork();
  if (measured == 0) {
    const test::Result result = test::flotilla(
        1, {"train", test::source_path("inputs/mnist_mlp.toml"), "run.output=" + output, "model.widths=[]",
            "train.epochs=1", "train.global_batch_size=128", "validation.every=0", "device.threads=1",
            "data.kind=hdf5", "data.train.path=" + path, "data.cache_mb=" + std::to_string(cache_mb),
            "data.threads=" + std::to_string(threads), "data.prefetch=1", "data.order=" + order,
            order == "blocks" ? "data.shuffle_block=64" : "data.order=" + order,
            order == "blocks" ? "data.shuffle_buffer=512" : "data.order=" + order});
    rusage usage{};
    getrusage(RUSAGE_CHILDREN, &usage);
    const std::int64_t peak = result.exit_code == 0 ? std::int64_t{usage.ru_maxrss} * 1024 : -1;
    if (result.exit_code != 0) std::fputs(result.errors.c_str(), stderr);
    _exit(write(ends[1], &peak, sizeof(peak)) == sizeof(peak) ? 0 : 1);
  }
  std::int64_t peak = -1;
  const bool told = read(ends[0], &peak, sizeof(peak)) == sizeof(peak);
  waitpid(measured, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  return told ? peak : -1;
}

TEST(ArrayMemory, OfAFileTwentyTimesTheCacheIsBoundedByTheCache) {
  const test::TemporaryFolder folder;
  write_samples(folder.path("small.h5"), 128);
  write_samples(folder.path("large.h5"), 20 * cache_mb * mebibyte / width);
  // What is kept; as much again, which the C library holds back where one thread frees what another has
  // allocated; for each thread the chunk that it copies from, as it is stored and between two filters; and
  // 16 MiB of pages that two runs of one program touch or not, up to 7 MiB each.
  const std::int64_t bound = (2 * cache_mb + 16) * mebibyte + threads * 4 * chunk_bytes;
  ASSERT_LT(bound, 20 * cache_mb * mebibyte / 2);
  for (const char* order : {"blocks", "file"}) {
    const std::int64_t small = peak_of_training(folder.path("small.h5"), "file", folder.path("small"));
    const std::int64_t large = peak_of_training(folder.path("large.h5"), order, folder.path(order));
    ASSERT_GT(small, 0);
    ASSERT_GT(large, 0);
    EXPECT_LT(large - small, bound) << order;
    std::printf("%s: %.1f MiB, of a small file %.1f MiB\n", order, static_cast<double>(large) / mebibyte,
                static_cast<double>(small) / mebibyte);
  }
}

}  // namespace
}  // namespace flotilla
