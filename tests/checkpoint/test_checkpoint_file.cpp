// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "kernels/error.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {

TEST(CheckpointFile, GivesBackEverythingThatWasWritten) {
  const test::TemporaryFolder folder;
  const Snapshot written = sample_snapshot(400);

  write_checkpoint_file(folder.path("a.h5"), written);
  const Snapshot read = read_checkpoint(folder.path("a.h5"));

  EXPECT_TRUE(equal(read, written));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.h5"});
}

TEST(CheckpointFile, KeepsNotANumberInfinityAndNegativeZeroBitForBit) {
  const test::TemporaryFolder folder;
  Snapshot written = sample_snapshot(1);
  written.values[0] = std::nanf("7");
  written.values[1] = -std::numeric_limits<float>::infinity();
  written.values[2] = -0.0F;

  write_checkpoint_file(folder.path("a.h5"), written);

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
}

TEST(CheckpointFile, KeepsNumbersThatAreInfiniteOrNone) {
  const test::TemporaryFolder folder;
  Snapshot written = sample_snapshot(1);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  written.state.numbers = {{"third", 1.0 / 3.0}, {"much", infinity}, {"little", -infinity}, {"zero", -0.0}};

  write_checkpoint_file(folder.path("a.h5"), written);
  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
  EXPECT_TRUE(std::signbit(read_checkpoint(folder.path("a.h5")).state.numbers.at("zero")));

  written.state.numbers = {{"none", -std::nan("")}};
  write_checkpoint_file(folder.path("b.h5"), written);
  EXPECT_TRUE(std::isnan(read_checkpoint(folder.path("b.h5")).state.numbers.at("none")));
}

TEST(CheckpointFile, OfTheFirstSchemaIsStillRead) {
  const test::TemporaryFolder folder;
  Snapshot written = sample_snapshot(400);
  written.state.schema = 1;
  written.state.numbers.clear();
  written.state.training_samples = 0;

  write_checkpoint_file(folder.path("a.h5"), written);

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
}

TEST(CheckpointFile, NamesThePartsOfWorkersAndServers) {
  const test::TemporaryFolder folder;
  Snapshot written = sample_snapshot(1);
  written.state.parts = {{.name = "worker-0000.h5", .bytes = 7, .checksum = 9}};
  written.state.server_parts = {{.name = "server-0000.h5", .bytes = 1, .checksum = ~std::uint64_t{0}},
                                {.name = "server-0001.h5", .bytes = 2, .checksum = 3}};

  write_checkpoint_file(folder.path("a.h5"), written);

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
}

TEST(CheckpointFile, HoldsDecksOfAnyLengthAndTensorsWithoutValues) {
  const test::TemporaryFolder folder;
  for (const std::size_t length :
       {std::size_t{0}, std::size_t{1}, std::size_t{65535}, std::size_t{1000000}}) {
    Snapshot written = sample_snapshot(1);
    written.state.deck = std::string(length, 'x');
    written.state.versions.clear();
    add_tensor(written, "strategy/zero/empty", {0, 4}, 0.0F);

    write_checkpoint_file(folder.path("a.h5"), written);

    EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written)) << length;
  }
}

TEST(CheckpointFile, HoldsManyTensorsInTheirOrder) {
  const test::TemporaryFolder folder;
  Snapshot written;
  for (int i = 500; i > 0; --i)
    add_tensor(written, cat("parameters/layer", i, ".weight"), {i % 7 + 1, 3}, static_cast<float>(i));

  write_checkpoint_file(folder.path("a.h5"), written);

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
}

TEST(CheckpointFile, IsTheSameBytesForTheSameSnapshotAtAnyTime) {
  const test::TemporaryFolder folder;

  write_checkpoint_file(folder.path("a.h5"), sample_snapshot(3));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5's times are in seconds
  write_checkpoint_file(folder.path("b.h5"), sample_snapshot(3));

  EXPECT_EQ(bytes_of(folder.path("a.h5")), bytes_of(folder.path("b.h5")));
}

TEST(CheckpointFile, RefusesNamesThatAReaderWouldNotFind) {
  const test::TemporaryFolder folder;
  for (const char* path :
       {"weight", "parameters/a/b", "optimizer/a", "strategy/a", "parameters/", "parameters/conv.weight"}) {
    Snapshot snapshot = sample_snapshot(1);
    add_tensor(snapshot, path, {1}, 0.0F);

    EXPECT_THROW(write_checkpoint_file(folder.path("a.h5"), snapshot), InternalError) << path;
  }
}

}  // namespace flotilla
