// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/data/dataset.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/allocation_count.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

/// Writes `count` black images of 28x28, or labels 0, without holding them in memory.
void write_zeros(const std::string& path, const test::Bytes& header, std::int64_t bytes) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "wb1"), gzclose);
  ASSERT_NE(file, nullptr);
  ASSERT_GT(gzwrite(file.get(), header.data(), static_cast<unsigned>(header.size())), 0);
  const test::Bytes block(784 * 100);
  for (std::int64_t done = 0; done < bytes; done += std::ssize(block)) {
    const std::int64_t count = std::min<std::int64_t>(bytes - done, std::ssize(block));
    ASSERT_GT(gzwrite(file.get(), block.data(), static_cast<unsigned>(count)), 0);
  }
}

TEST(IdxDataset, KeepsOnlyLabelsInReachOfMemory) {
  constexpr std::uint32_t count = 60000;
  const test::TemporaryFolder folder;
  write_zeros(folder.path("images"), test::header({2051, count, 28, 28}), std::int64_t{784} * count);
  write_zeros(folder.path("labels"), test::header({2049, count}), count);

  const std::int64_t most = test::most_bytes_over([&] {
    const auto data = open_dataset({}, test::idx_source(folder.path("images"), folder.path("labels")), 10, 1);
    std::vector<float> sample(784);
    for (std::int64_t i = 0; i < data->size(); ++i) data->read(i, 0, sample);
  });

  // 47 MB of images; blocks and 60 kB of labels remain.
  EXPECT_GT(most, count);
  EXPECT_LT(most, 3'000'000);
}

}  // namespace
}  // namespace flotilla
