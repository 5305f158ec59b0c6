// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/topology.hpp"
#include "src/data/dataset.hpp"
#include "src/train/inflated_copies.hpp"
#include "src/train/shard_indexes.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/agreed_failure.hpp"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

/// Inodes of the nameless files below `folder` that this process has open, each once.
std::vector<std::int64_t> nameless_files(const std::string& folder) {
  std::vector<std::int64_t> inodes;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = fs::read_symlink(entry.path(), error).string();
    struct stat status {};
    if (!target.starts_with(folder) || !target.ends_with(" (deleted)")) continue;
    if (::stat(entry.path().c_str(), &status) != 0) continue;
    if (std::ranges::count(inodes, static_cast<std::int64_t>(status.st_ino)) == 0)
      inodes.push_back(static_cast<std::int64_t>(status.st_ino));
  }
  std::ranges::sort(inodes);
  return inodes;
}

class InflatedCopiesTest : public testing::Test {
 protected:
  /// A plain and a compressed file, 70 and 50 samples, in rank 0's folder.
  InflatedCopiesTest() : world(mpi::Communicator::world()), root(folder.path("")) {
    world.broadcast(root);
    if (world.is_root()) {
      fs::create_directory(root + "clicks");
      fs::create_directory(root + "tmp");
      test::save_gzip(root + "clicks/day_0.gz", test::criteo_text(0, 50));
      test::save_text(root + "clicks/day_1", test::criteo_text(50, 120));
    }
    world.barrier();
    data.kind = DataKind::criteo;
    data.train = {.given = true, .images = {}, .labels = {}, .path = root + "clicks"};
    ::setenv("TMPDIR", (root + "tmp").c_str(), 1);
  }
  /// Checks that the data as the ranks of this host read them are those that a rank reads for itself, and
  /// that the ranks share one copy.
  void expect_one_copy_of_the_inputs(std::int64_t classes) {
    std::unique_ptr<Dataset> dataset;
    {
      const InflatedCopies copies(data, false, world, world.split_by_host(), mpi::find_topology(world),
                                  watchdog);
      dataset = open_dataset(data, data.train, classes, 1, {.training = true, .inflated = copies.handles});
      world.barrier();
    }
    auto own = open_dataset(data, data.train, classes, 1);
    std::vector<float> sample(static_cast<std::size_t>(own->sample_shape().size()));
    std::vector<float> wanted(sample.size());
    for (std::int64_t i = 0; i < own->size(); i += 100) {
      EXPECT_EQ(dataset->read(i, 0, sample), own->read(i, 0, wanted));
      EXPECT_EQ(sample, wanted) << "sample " << i;
    }
    own.reset();
    const std::vector<std::int64_t> mine = nameless_files(root);
    ASSERT_EQ(mine.size(), 1U) << "of the inputs; labels are kept in memory";
    for (const std::int64_t inode : world.all_gather(std::span<const std::int64_t>(mine)))
      EXPECT_EQ(inode, mine[0]) << "a rank has inflated for itself";
  }
  ~InflatedCopiesTest() override {
    ::unsetenv("TMPDIR");
    world.barrier();
  }

  test::TemporaryFolder folder;
  mpi::Communicator world;
  std::string root;
  DataConfig data;
  mpi::Watchdog watchdog{0, [](const std::string&) {}};
};

TEST_F(InflatedCopiesTest, AreOneFileForAllRanksOfAHost) {
  std::unique_ptr<Dataset> dataset;
  {
    const InflatedCopies copies(data, false, world, world.split_by_host(), mpi::find_topology(world),
                                watchdog);
    dataset = open_dataset(data, data.train, 2, 1, {.training = true, .inflated = copies.handles});
    world.barrier();
  }

  EXPECT_TRUE(test::read_all(*dataset) == test::read_all(*open_dataset(data, data.train, 2, 1)));
  const std::vector<std::int64_t> mine = nameless_files(root);
  ASSERT_EQ(mine.size(), 1U) << "one for each compressed file";
  for (const std::int64_t inode : world.all_gather(std::span<const std::int64_t>(mine)))
    EXPECT_EQ(inode, mine[0]) << "a rank has inflated for itself";
  EXPECT_TRUE(fs::is_empty(root + "tmp"));
}

TEST_F(InflatedCopiesTest, AreReadInSharesByAllRanks) {
  const auto mpi_places = mpi::find_topology(world);
  const auto opened = [&] {
    const InflatedCopies copies(data, false, world, world.split_by_host(), mpi_places, watchdog);
    Config config;
    config.data = data;
    config.model.classes = 2;
    DatasetUse use{.training = true, .inflated = copies.handles};
    read_together(config, use, world, mpi_places, watchdog);
    world.barrier();
    return open_dataset(data, data.train, 2, 1, use);
  };

  const auto dataset = opened();

  const auto own = open_dataset(data, data.train, 2, 1);
  EXPECT_TRUE(test::read_all(*dataset) == test::read_all(*own));
  EXPECT_EQ(dataset->description(), own->description());
  EXPECT_EQ(identity_of(*dataset), identity_of(*own));
  EXPECT_EQ(dataset->deal(ShardBy::bytes, 3), own->deal(ShardBy::bytes, 3));

  world.barrier();
  if (world.is_root())
    test::save_text(root + "clicks/day_1",
                    test::criteo_text(50, 120) + "7\n" + test::criteo_text(0, 9) + "8\n");
  world.barrier();
  EXPECT_TRUE(test::mentions(test::error_of(opened), {root + "clicks/day_1:71: has 1 column"}));
}

TEST_F(InflatedCopiesTest, OfIdxFilesAreOneForAllRanksOfAHost) {
  const std::string digits = FLOTILLA_SOURCE_DIR "/inputs/data/mnist/t10k-";
  data.kind = DataKind::idx;
  data.train = {.given = true,
                .images = digits + "images-idx3-ubyte.gz",
                .labels = digits + "labels-idx1-ubyte.gz",
                .path = {}};
  expect_one_copy_of_the_inputs(10);
}

TEST_F(InflatedCopiesTest, OfChunksThatExceedTheCacheAreOneForAllRanksOfAHost) {
  const NumberType f32{NumberType::Kind::f32};
  if (world.is_root())
    test::save_hdf5(root + "a.h5",
                    {test::counted("images", f32, {500, 1000}), test::counted("labels", {}, {500})},
                    {.chunk = {16, 1000}, .shuffle = true, .deflate = 1});
  world.barrier();
  data.kind = DataKind::hdf5;
  data.train.path = root + "a.h5";
  data.cache_mb = 1;
  expect_one_copy_of_the_inputs(120);
}

TEST_F(InflatedCopiesTest, AreMadeByEachRankThatCannotReachAnothers) {
  InflatedCopies copies(data, false, world, world.split_by_host(), mpi::find_topology(world), watchdog);
  for (auto& [path, handle] : copies.handles) handle += '1';  // another inode: another process's file

  const auto dataset = open_dataset(data, data.train, 2, 1, {.training = true, .inflated = copies.handles});

  EXPECT_EQ(dataset->size(), 120);
  world.barrier();
}

TEST_F(InflatedCopiesTest, OneRankOfAHostLooksForTheFiles) {
  if (world.size() == 1) GTEST_SKIP() << "one rank looks for all files";
  std::vector<mpi::Place> several = mpi::find_topology(world);
  Config config;
  config.data = data;
  config.data.train.path = root + (world.rank() == 1 ? "nowhere" : "clicks/day_1");

  check_data_files_on_hosts(config, false, world, several);

  for (std::size_t rank = 0; rank < several.size(); ++rank) {
    several[rank].host = cat("host-", rank);
    several[rank].host_index = static_cast<int>(rank);
    several[rank].local_rank = 0;
  }
  const std::string text =
      test::failure_of([&] { check_data_files_on_hosts(config, false, world, several); });
  EXPECT_TRUE(test::mentions(text, {"host-1", "data.train.path", root + "nowhere"}));
}

TEST_F(InflatedCopiesTest, EndTheJobOnAllRanksWhereOneCannotBeMade) {
  if (world.size() == 1) GTEST_SKIP() << "one rank inflates as it opens";
  ::setenv("TMPDIR", (root + "nowhere").c_str(), 1);
  const std::string text = test::failure_of([&] {
    InflatedCopies(data, false, world, world.split_by_host(), mpi::find_topology(world), watchdog);
  });
  EXPECT_TRUE(test::mentions(text, {"the inflated copy of " + root + "clicks/day_0.gz", "set TMPDIR"}));
}

}  // namespace
}  // namespace flotilla
