// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "kernels/error.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {

using CheckpointFiles = test::InFolder;

TEST_F(CheckpointFiles, GivesBackEverythingThatWasWritten) {
  const Snapshot written = sample_snapshot(400);

  write_checkpoint_file(folder.path("a.h5"), written);
  const Snapshot read = read_checkpoint(folder.path("a.h5"));

  EXPECT_TRUE(equal(read, written));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a.h5"});
}

TEST_F(CheckpointFiles, KeepsNotANumberInfinityAndNegativeZeroBitForBit) {
  Snapshot written = sample_snapshot(1);
  written.values[0] = std::nanf("7");
  written.values[1] = -std::numeric_limits<float>::infinity();
  written.values[2] = -0.0F;

  write_checkpoint_file(folder.path("a.h5"), written);

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
}

TEST_F(CheckpointFiles, KeepsNumbersThatAreInfiniteOrNone) {
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

TEST_F(CheckpointFiles, OfTheFirstSchemaIsStillRead) {
  Snapshot written = sample_snapshot(400);
  written.state.schema = 1;
  written.state.numbers.clear();
  written.state.training_samples = 0;

  write_checkpoint_file(folder.path("a.h5"), written);

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
}

TEST_F(CheckpointFiles, NamesThePartsOfWorkersAndServers) {
  Snapshot written = sample_snapshot(1);
  written.state.parts = {{.name = "worker-0000.h5", .bytes = 7, .checksum = 9}};
  written.state.server_parts = {{.name = "server-0000.h5", .bytes = 1, .checksum = ~std::uint64_t{0}},
                                {.name = "server-0001.h5", .bytes = 2, .checksum = 3}};

  write_checkpoint_file(folder.path("a.h5"), written);

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
}

TEST_F(CheckpointFiles, HoldsDecksOfAnyLengthAndTensorsWithoutValues) {
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

TEST_F(CheckpointFiles, HoldsManyTensorsInTheirOrder) {
  Snapshot written;
  for (int i = 500; i > 0; --i)
    add_tensor(written, cat("parameters/layer", i, ".weight"), {i % 7 + 1, 3}, static_cast<float>(i));

  write_checkpoint_file(folder.path("a.h5"), written);

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
}

TEST_F(CheckpointFiles, IsTheSameBytesForTheSameSnapshotAtAnyTime) {
  write_checkpoint_file(folder.path("a.h5"), sample_snapshot(3));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // HDF5's times are in seconds
  write_checkpoint_file(folder.path("b.h5"), sample_snapshot(3));

  EXPECT_EQ(bytes_of(folder.path("a.h5")), bytes_of(folder.path("b.h5")));
}

TEST_F(CheckpointFiles, RefusesNamesThatAReaderWouldNotFind) {
  for (const char* path :
       {"weight", "parameters/a/b", "optimizer/a", "strategy/a", "parameters/", "parameters/conv.weight"}) {
    Snapshot snapshot = sample_snapshot(1);
    add_tensor(snapshot, path, {1}, 0.0F);

    EXPECT_THROW(write_checkpoint_file(folder.path("a.h5"), snapshot), InternalError) << path;
  }
}

/// A good file that each test spoils in its own way.
class DamagedCheckpoint : public testing::Test {
 protected:
  DamagedCheckpoint() { write_checkpoint_file(path_, written_); }
  std::string reading_error() const {
    return error_of([&] { read_checkpoint(path_); });
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.path("step-00000400.h5");
  Snapshot written_ = sample_snapshot(400);
};

TEST_F(DamagedCheckpoint, IsRefusedWhenTruncatedAnywhere) {
  const auto whole = bytes_of(path_);
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    put_bytes(path_, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});

    EXPECT_TRUE(mentions(reading_error(), {path_})) << size;
  }
}

TEST_F(DamagedCheckpoint, IsNeverReadWithOtherContents) {
  const auto whole = bytes_of(path_);
  std::size_t refused = 0;
  std::size_t tried = 0;
  for (std::size_t position = 0; position < whole.size(); position += 3, ++tried) {
    put_byte(path_, position, whole[position] ^ static_cast<std::byte>(1U << position % 8));
    try {
      const Snapshot read = read_checkpoint(path_);
      EXPECT_TRUE(equal(read, written_)) << "accepted with byte " << position << " flipped";
    } catch (const UserError&) {
      ++refused;
    }
    put_byte(path_, position, whole[position]);
  }
  EXPECT_GT(refused, tried / 2);
}

TEST_F(DamagedCheckpoint, NamesTheTensorWhoseValuesChanged) {
  const auto value = std::as_bytes(written_.of(written_.tensors[2]));
  const auto whole = bytes_of(path_);
  const auto at = std::search(whole.begin(), whole.end(), value.begin(), value.end());
  ASSERT_NE(at, whole.end());

  const auto place = at + 6;
  put_byte(path_, static_cast<std::size_t>(place - whole.begin()), ~*place);

  EXPECT_TRUE(mentions(reading_error(), {path_, "/parameters/conv.weight", "checksum"}));
}

TEST_F(DamagedCheckpoint, NamesEveryMissingAttribute) {
  const auto whole = bytes_of(path_);
  for (const char* name :
       {"step", "epoch", "offset", "samples", "seed", "optimizer_step", "deck", "versions", "choices",
        "inference_only", "numbers", "parts", "training_samples", "server_parts", "schema", "xxh3"}) {
    put_bytes(path_, whole);

    delete_attribute(path_, "/", name);

    EXPECT_TRUE(mentions(reading_error(), {path_, name}));
  }
}

TEST_F(DamagedCheckpoint, IsRefusedWhenAnAttributeChangedItsValueOrType) {
  const auto whole = bytes_of(path_);
  const auto spoil = [&](const auto& change) {
    put_bytes(path_, whole);
    change();
    return reading_error();
  };

  EXPECT_TRUE(mentions(spoil([&] { set_attribute(path_, "seed", 5); }), {"checksum"}));
  EXPECT_TRUE(mentions(spoil([&] { set_attribute(path_, "deck", "# other"); }), {"checksum"}));
  EXPECT_TRUE(mentions(spoil([&] {
                         set_attribute(path_, "server_parts",
                                       R"([{"name": "server-0000.h5", "bytes": 1, "xxh3": "00"}])");
                       }),
                       {"checksum"}));
  EXPECT_TRUE(mentions(spoil([&] { set_attribute(path_, "server_parts", "[{}]"); }), {"server_parts"}));
  EXPECT_TRUE(mentions(spoil([&] { set_attribute(path_, "step", "400"); }), {"step of the wrong type"}));
  EXPECT_TRUE(mentions(spoil([&] { set_attribute(path_, "deck", 400); }), {"deck of the wrong type"}));
  EXPECT_TRUE(mentions(spoil([&] { set_attribute(path_, "versions", "[1, 2"); }), {"versions"}));
  EXPECT_TRUE(mentions(spoil([&] { set_attribute(path_, "choices", "{\"a\": 1}"); }), {"choices"}));
  EXPECT_TRUE(mentions(spoil([&] { set_attribute(path_, "xxh3", "0123"); }), {"16 hexadecimal digits"}));
}

TEST_F(DamagedCheckpoint, IsRefusedWithoutOneOfItsTensors) {
  for (const char* path : {"parameters/layers.0.bias", "optimizer/first", "statistics"}) {
    write_checkpoint_file(path_, written_);

    delete_object(path_, path);

    EXPECT_TRUE(mentions(reading_error(), {"list of tensors"})) << path;
  }
}

TEST_F(DamagedCheckpoint, IsRefusedWhenATensorChangedItsTypeOrShape) {
  const std::string name = "parameters/layers.0.bias";
  const auto whole = bytes_of(path_);
  const auto replace = [&](const std::vector<std::uint64_t>& extents, Stored stored) {
    put_bytes(path_, whole);
    delete_object(path_, name);
    add_dataset(path_, name, extents, {400.25F, 401.25F, 402.25F, 0.0F}, stored);
    return reading_error();
  };

  EXPECT_TRUE(mentions(replace({3}, Stored::integers), {"floating-point"}));
  EXPECT_TRUE(mentions(replace({4}, Stored::float32), {"list of tensors"}));
  EXPECT_TRUE(mentions(replace({1, 1, 1, 1, 3}, Stored::float32), {"5 axes"}));
}

TEST_F(DamagedCheckpoint, FromANewerSchemaSaysSo) {
  set_attribute(path_, "schema", CheckpointState::newest_schema + 1);

  EXPECT_TRUE(mentions(reading_error(), {path_, "newer Flotilla (schema 4; this one reads up to 3)"}));
}

TEST_F(DamagedCheckpoint, WithGroupsOfOthersIsGood) {
  add_dataset(path_, "notes/numbers", {2}, {1.0F, 2.0F});

  EXPECT_TRUE(equal(read_checkpoint(path_), written_));
}

TEST(NoCheckpoint, IsRefusedNamingFileAndReason) {
  const test::TemporaryFolder folder;
  put_bytes(folder.path("text.h5"), std::vector<std::byte>(5000, std::byte{'x'}));
  put_bytes(folder.path("empty.h5"), {});
  const auto error = [&](const std::string& name) {
    return error_of([&] { read_checkpoint(folder.path(name)); });
  };

  EXPECT_TRUE(mentions(error("absent.h5"), {"absent.h5", "No such file"}));
  EXPECT_TRUE(mentions(error("text.h5"),
                       {"text.h5", "is a text file, not a checkpoint or a file of weights (HDF5)"}));
  EXPECT_TRUE(mentions(error("empty.h5"), {"empty.h5", "empty"}));
  EXPECT_TRUE(mentions(error(""), {folder.path(), "directory"}));
}

using WeightsInFolder = test::InFolder;

TEST_F(WeightsInFolder, OfOtherProgramsAreConvertedAndNeedNoState) {
  const std::string path = folder.path("w.h5");
  const std::vector<float> values = {1.5F, -2.0F, 3.25F, 4.0F, 5.0F, 6.0F};
  for (const auto& [name, stored] : std::vector<std::pair<std::string, Stored>>{{"a", Stored::float32},
                                                                                {"b", Stored::float64},
                                                                                {"c", Stored::big_endian},
                                                                                {"d", Stored::compressed}})
    add_dataset(path, "parameters/" + name, {2, 3}, values, stored);
  add_dataset(path, "statistics/mean", {6}, values);
  add_dataset(path, "elsewhere/x", {6}, values);

  const Snapshot weights = read_weights(path);

  ASSERT_EQ(weights.tensors.size(), 5U);
  EXPECT_EQ(weights.tensors[3].path, "parameters/d");
  EXPECT_EQ(weights.tensors[4].path, "statistics/mean");
  EXPECT_EQ(weights.tensors[0].shape, (Shape{2, 3}));
  for (const CheckpointTensor& tensor : weights.tensors)
    EXPECT_TRUE(std::ranges::equal(weights.of(tensor), values)) << tensor.path;
  EXPECT_EQ(weights.state.deck, "");
}

TEST_F(WeightsInFolder, OfACheckpointComeWithoutOptimizerState) {
  write_checkpoint_file(folder.path("a.h5"), sample_snapshot(7));

  const Snapshot weights = read_weights(folder.path("a.h5"));

  EXPECT_EQ(weights.tensors.size(), 4U);
  EXPECT_EQ(weights.values.size(), 15U + 3U + 18U + 2U);
  EXPECT_EQ(weights.state.step, 7);
}

TEST_F(WeightsInFolder, AreRefusedWithoutParametersAndAreNoCheckpoint) {
  add_dataset(folder.path("none.h5"), "elsewhere/x", {1}, {1.0F});
  add_dataset(folder.path("w.h5"), "parameters/x", {1}, {1.0F});

  EXPECT_TRUE(mentions(error_of([&] { read_weights(folder.path("none.h5")); }),
                       {"is an HDF5 file of arrays, not a checkpoint"}));
  EXPECT_TRUE(mentions(error_of([&] { read_checkpoint(folder.path("w.h5")); }), {"no attribute schema"}));
}

TEST_F(WeightsInFolder, WithNumbersThatAreNotFiniteAreRefusedNamingTheTensor) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  add_dataset(folder.path("nan.h5"), "parameters/good", {2}, {1.0F, 2.0F});
  add_dataset(folder.path("nan.h5"), "parameters/fc.weight", {2, 2}, {1.0F, 2.0F, nan, nan});
  add_dataset(folder.path("inf.h5"), "parameters/good", {2}, {1.0F, 2.0F});
  add_dataset(folder.path("inf.h5"), "statistics/bn.running_var", {1}, {-infinity});
  Snapshot diverged = sample_snapshot(7);
  diverged.values[0] = nan;
  write_checkpoint_file(folder.path("a.h5"), diverged);
  const auto error = [&](const std::string& name) {
    return error_of([&] { read_weights(folder.path(name)); });
  };

  EXPECT_TRUE(
      mentions(error("nan.h5"), {"nan.h5", "nan in /parameters/fc.weight", "value 2 and 1 more of 4"}));
  EXPECT_TRUE(mentions(error("inf.h5"), {"inf.h5", "-inf in /statistics/bn.running_var"}));
  EXPECT_TRUE(mentions(error("a.h5"), {"a.h5", "nan in /parameters/layers.0.weight"}));
}

TEST_F(WeightsInFolder, ThatAreIntegersAreRefusedNamingTheTensor) {
  add_dataset(folder.path("w.h5"), "parameters/x", {1}, {1.0F});
  add_dataset(folder.path("w.h5"), "statistics/n", {1}, {1.0F}, Stored::integers);

  EXPECT_TRUE(mentions(error_of([&] { read_weights(folder.path("w.h5")); }),
                       {"w.h5", "/statistics/n is not a set of floating-point numbers"}));
}

// Memory for what is claimed would end the job, or the machine.
TEST_F(WeightsInFolder, ThatLieInOtherFilesAreNotReadThere) {
  const std::string path = "parameters/w";
  for (const Elsewhere how :
       {Elsewhere::external_link, Elsewhere::link_to_external_link, Elsewhere::group_link,
        Elsewhere::external_storage, Elsewhere::virtual_dataset}) {
    const test::TemporaryFolder own;
    add_dataset(own.path("other.h5"), path, {4}, {1.0F, 2.0F, 3.0F, 4.0F});
    add_dataset_elsewhere(own.path("w.h5"), path, how, own.path("other.h5"), 4);

    const bool stored = how == Elsewhere::external_storage || how == Elsewhere::virtual_dataset;
    EXPECT_TRUE(mentions(error_of([&] { read_weights(own.path("w.h5")); }),
                         {own.path("w.h5"), stored ? "has its values in other files" : ""}))
        << static_cast<int>(how);
  }
}

TEST_F(WeightsInFolder, OfWhichTheHeaderHoldsFewerThanTheShapeAreRefused) {
  const std::string path = folder.path("w.h5");
  add_dataset(path, "parameters/w", {4}, {1.0F, 2.0F, 3.0F, 4.0F}, Stored::compact);
  EXPECT_EQ(read_weights(path).values, (std::vector<float>{1.0F, 2.0F, 3.0F, 4.0F}));
  // The message of a compact layout: version 3, class 0, bytes of the values in two bytes, the first value 1.
  constexpr std::array message{std::byte{3}, std::byte{0}, std::byte{16},   std::byte{0},
                               std::byte{0}, std::byte{0}, std::byte{0x80}, std::byte{0x3F}};
  auto whole = bytes_of(path);
  const auto at = std::ranges::search(whole, message).begin();
  ASSERT_NE(at, whole.end());
  for (const int size : {0, 12}) {
    at[2] = static_cast<std::byte>(size);
    put_bytes(path, whole);
    EXPECT_TRUE(mentions(error_of([&] { read_weights(path); }), {path, "fewer values than its shape"}));
  }
}

TEST_F(WeightsInFolder, ThatClaimMoreValuesThanTheFileCanHoldAreRefused) {
  add_unwritten_dataset(folder.path("some.h5"), "parameters/x", 4096);
  EXPECT_EQ(read_weights(folder.path("some.h5")).values.size(), 4096U) << "compressed zeros are small";
  for (const std::uint64_t claimed : {std::uint64_t{1} << 40, std::uint64_t{1} << 42}) {
    const std::string path = folder.path(cat(claimed, ".h5"));
    add_unwritten_dataset(path, "parameters/x", claimed);

    EXPECT_TRUE(mentions(error_of([&] { read_weights(path); }),
                         {path, cat("/parameters/x claims ", 4 * claimed, " bytes"), "can hold"}));
  }
}

TEST_F(WeightsInFolder, ThatClaimMoreTogetherThanTheFileCanHoldAreRefused) {
  const std::string path = folder.path("w.h5");
  add_unwritten_dataset(path, "parameters/x", 1 << 20);
  for (int i = 0; i < 39; ++i) add_link(path, "parameters/x", cat("statistics/", i));

  EXPECT_TRUE(mentions(error_of([&] { read_weights(path); }),
                       {path, "its datasets claim together more bytes", "can hold"}));
}

TEST_F(WeightsInFolder, WhoseGroupsNameMoreDatasetsThanTheFileCanHoldAreRefused) {
  const std::string path = folder.path("w.h5");
  for (int i = 0; i < 50; ++i) add_dataset(path, cat("optimizer/0/", i), {1}, {1.0F});
  for (int i = 1; i < 50; ++i) add_link(path, "optimizer/0", cat("optimizer/", i));

  EXPECT_TRUE(mentions(error_of([&] { read_weights(path); }),
                       {path, "its /optimizer/", "names more datasets than the file can hold"}));
}

TEST_F(WeightsInFolder, ThatNeedOtherFiltersThanOneDeflateAreRefused) {
  const std::string path = folder.path("w.h5");
  add_dataset(path, "parameters/x", {2}, {1.0F, 3.0F}, Stored::compressed_twice);

  EXPECT_TRUE(mentions(error_of([&] { read_weights(path); }),
                       {path, "/parameters/x went through the filter 1 (deflate) twice", "h5repack"}));
}

TEST(CheckTensors, NamesTheFirstThatIsMissingOfAnotherShapeOrTooMany) {
  const Snapshot snapshot = sample_snapshot(1);
  auto expected = snapshot.tensors;
  const auto complaint = [&] { return error_of([&] { check_tensors(snapshot.tensors, expected, "a.h5"); }); };

  EXPECT_EQ(complaint(), "");
  expected[1].shape = {4};
  EXPECT_TRUE(mentions(complaint(), {"layers.0.bias of shape 3, the model needs 4", "'a.h5'"}));
  expected[1] = snapshot.tensors[1];
  expected.push_back({"parameters/new", {2, 2}, 0});
  EXPECT_TRUE(mentions(complaint(), {"no tensor parameters/new (2x2)"}));
  expected.resize(snapshot.tensors.size() - 1);
  EXPECT_TRUE(mentions(complaint(),
                       {"strategy/outer_momentum/layers.0.weight (3x5), which the model does not know"}));
}

}  // namespace flotilla
