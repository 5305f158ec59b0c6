// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>

#include "kernels/error.hpp"
#include "src/checkpoint/file_index.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/files/hdf5_handles.hpp"
#include "tests/checkpoint/row_samples.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {

namespace {

const CheckpointState state = sample_snapshot(400).state;

/// Tables of several widths, with no to two slots, one of them empty.
std::vector<Rows> sample_tables() {
  return {sample_rows({.name = "ids", .width = 10, .slots = {"first", "second"}, .rows = 61}),
          sample_rows({.name = "wide", .width = 1, .slots = {}, .rows = 5}, 3),
          sample_rows({.name = "none", .width = 8, .slots = {"sum"}, .rows = 0})};
}

/// Reads all tables and compares them with those that were written. Returns the text of the UserError.
std::string error_of_reading(const std::string& path, const std::vector<Rows>& written) {
  return error_of([&] {
    RowFileReader reader(path);
    for (std::size_t i = 0; i < reader.tables().size(); ++i)
      EXPECT_TRUE(equal(read_rows(reader, i), written.at(i))) << "accepted with other rows";
  });
}

/// The position of the bytes of values in a file.
template <class T>
std::size_t place_of(const std::vector<std::byte>& file, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  const auto at = std::search(file.begin(), file.end(), bytes.begin(), bytes.end());
  EXPECT_NE(at, file.end());
  return static_cast<std::size_t>(at - file.begin());
}

/// A good file that each test spoils in its own way.
class DamagedRows : public testing::Test {
 protected:
  DamagedRows() { write_rows(path_, written_, state); }
  std::string error() const { return error_of_reading(path_, written_); }

  test::TemporaryFolder folder_;
  std::string path_ = folder_.path("server-0000.h5");
  std::vector<Rows> written_ = sample_tables();
};

}  // namespace

using RowFile = test::InFolder;

TEST_F(RowFile, GivesBackTablesAndRowsBitForBit) {
  const std::vector<Rows> written = sample_tables();
  ASSERT_GT(written[0].keys.back(), std::uint64_t{1} << 63);

  const CheckpointPart part = write_rows(folder.path("server-0003.h5"), written, state, 7);
  RowFileReader reader(folder.path("server-0003.h5"));

  ASSERT_EQ(reader.tables().size(), written.size());
  for (std::size_t i = 0; i < written.size(); ++i) EXPECT_TRUE(equal(read_rows(reader, i), written[i])) << i;
  EXPECT_EQ(reader.state().step, 400);
  EXPECT_EQ(part.name, "server-0003.h5");
  EXPECT_EQ(part.checksum, reader.checksum());
  EXPECT_EQ(part.bytes, static_cast<std::int64_t>(bytes_of(folder.path("server-0003.h5")).size()));
}

TEST_F(RowFile, IsTheSameBytesHoweverItIsCutIntoPieces) {
  write_rows(folder.path("a.h5"), sample_tables(), state);
  write_rows(folder.path("b.h5"), sample_tables(), state, 1);

  EXPECT_EQ(bytes_of(folder.path("a.h5")), bytes_of(folder.path("b.h5")));
}

TEST_F(RowFile, IsReadInPiecesOfOneMebibyte) {
  const std::vector<Rows> written = {
      sample_rows({.name = "ids", .width = 8, .slots = {"sum"}, .rows = 40000}),
      sample_rows({.name = "widest", .width = 300000, .slots = {}, .rows = 2})};
  write_rows(folder.path("a.h5"), written, state);

  RowFileReader reader(folder.path("a.h5"));
  std::vector<std::size_t> pieces;
  for (RowPiece piece = reader.next(0); !piece.keys.empty(); piece = reader.next(0))
    pieces.push_back(piece.keys.size());

  EXPECT_EQ(pieces, (std::vector<std::size_t>{14563, 14563, 10874}));  // 2^20 / (8 + 16 · 4)
  EXPECT_EQ(reader.next(1).keys.size(), 1U);
  RowFileReader again(folder.path("a.h5"));
  for (const std::size_t i : {0, 1}) EXPECT_TRUE(equal(read_rows(again, i), written[i])) << i;
}

TEST_F(RowFile, WithoutTablesIsGood) {
  write_rows(folder.path("a.h5"), {}, state);

  EXPECT_TRUE(RowFileReader(folder.path("a.h5")).tables().empty());
}

TEST_F(RowFile, HoldsOtherTensorsToo) {
  const Snapshot snapshot = sample_snapshot(7);
  const Rows rows = sample_rows({.name = "ids", .width = 2, .slots = {}, .rows = 3});

  RowFileWriter writer(folder.path("a.h5"), {rows.table}, snapshot.tensors);
  for (std::size_t i = 0; i < snapshot.tensors.size(); ++i)
    writer.write_tensor(i, snapshot.of(snapshot.tensors[i]));
  writer.write(0, {.keys = rows.keys, .values = rows.values, .slots = {}});
  writer.complete(snapshot.state);
  EXPECT_EQ(bytes_of(folder.path("a.h5")).size(), 0U) << "has its name before it was asked to";
  writer.give_name();

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), snapshot));
  RowFileReader reader(folder.path("a.h5"));
  EXPECT_TRUE(equal(read_rows(reader, 0), rows));
}

TEST_F(RowFile, HoldsPlainTypesThatAnyHdf5ProgramReads) {
  write_rows(folder.path("a.h5"), sample_tables(), state);

  const hdf5::Session session;
  const hdf5::File file(H5Fopen(folder.path("a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "H5Fopen");
  const auto check = [&](const char* path, hid_t expected, const std::vector<hsize_t>& extents) {
    const hdf5::Dataset dataset(H5Dopen2(file.id(), path, H5P_DEFAULT), "H5Dopen2");
    const hdf5::Type type(H5Dget_type(dataset.id()), "H5Dget_type");
    const hdf5::Space space(H5Dget_space(dataset.id()), "H5Dget_space");
    std::vector<hsize_t> found(extents.size());
    EXPECT_GT(H5Tequal(type.id(), expected), 0) << path;
    ASSERT_EQ(H5Sget_simple_extent_ndims(space.id()), static_cast<int>(extents.size())) << path;
    H5Sget_simple_extent_dims(space.id(), found.data(), nullptr);
    EXPECT_EQ(found, extents) << path;
  };
  check("/rows/ids/keys", H5T_STD_U64LE, {61});
  check("/rows/ids/values", H5T_IEEE_F32LE, {61, 10});
  check("/rows/ids/second", H5T_IEEE_F32LE, {61, 10});
  check("/rows/none/keys", H5T_STD_U64LE, {0});
  check("/rows/none/sum", H5T_IEEE_F32LE, {0, 8});
}

TEST_F(RowFile, IsNotCompletedWithTooFewRowsNorWrittenWithTooManyOrOutOfOrder) {
  const std::vector<float> values(6);
  const auto writer = [&](std::vector<std::string> slots = {}) {
    return std::make_unique<RowFileWriter>(
        folder.path("a.h5"),
        std::vector<RowTable>{{.name = "t", .width = 2, .slots = std::move(slots), .rows = 2}});
  };
  const auto write = [&](RowFileWriter& to, std::vector<std::uint64_t> keys, std::size_t floats) {
    to.write(0, {.keys = keys, .values = std::span(values).first(floats), .slots = {}});
  };

  const auto short_of_one = writer();
  write(*short_of_one, {5}, 2);
  EXPECT_THROW(short_of_one->complete(state), InternalError);
  EXPECT_THROW(write(*short_of_one, {5}, 2), InternalError);
  EXPECT_THROW(write(*short_of_one, {6, 7}, 4), InternalError);
  EXPECT_THROW(write(*writer(), {5}, 3), InternalError);
  EXPECT_THROW(write(*writer(), {6, 5}, 4), InternalError);
  EXPECT_THROW(write(*writer({"sum"}), {5}, 2), InternalError);
  EXPECT_THROW(writer({"keys"}), InternalError);
  EXPECT_THROW(writer({"a/b"}), InternalError);
}

TEST_F(DamagedRows, AreRefusedWhenTruncatedAnywhere) {
  const auto whole = bytes_of(path_);
  for (std::size_t size = 0; size < whole.size(); size += 97) {
    put_bytes(path_, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});

    EXPECT_TRUE(mentions(error(), {path_})) << size;
  }
}

TEST_F(DamagedRows, AreNeverReadAsOthers) {
  const auto whole = bytes_of(path_);
  std::size_t refused = 0;
  std::size_t tried = 0;
  for (std::size_t position = 0; position < whole.size(); position += 7, ++tried) {
    put_byte(path_, position, whole[position] ^ static_cast<std::byte>(1U << position % 8));
    refused += error().empty() ? 0 : 1;  // error() compares what was accepted
    put_byte(path_, position, whole[position]);
  }
  EXPECT_GT(refused, tried / 2);
}

TEST_F(DamagedRows, NameTheDatasetThatChanged) {
  const auto whole = bytes_of(path_);
  const auto error_with_flip_at = [&](std::size_t position) {
    put_bytes(path_, whole);
    put_byte(path_, position, ~whole[position]);
    EXPECT_NE(first_damage(hdf5::read_index(path_)), "");
    return error();
  };

  EXPECT_TRUE(mentions(error_with_flip_at(place_of(whole, written_[0].keys) + 8 * 30),
                       {path_, "/rows/ids/keys", "checksum"}));
  EXPECT_TRUE(mentions(error_with_flip_at(place_of(whole, written_[0].keys) + 8 * 30 + 7),
                       {path_, "/rows/ids/keys", "do not ascend"}));
  EXPECT_TRUE(mentions(error_with_flip_at(place_of(whole, written_[1].values) + 6),
                       {path_, "/rows/wide/values", "checksum"}));
  EXPECT_TRUE(mentions(error_with_flip_at(place_of(whole, written_[0].slots[1])),
                       {path_, "/rows/ids/second", "checksum"}));
}

TEST_F(DamagedRows, AreRefusedWithoutAStateOrOneOfTheDatasets) {
  const auto whole = bytes_of(path_);
  for (const char* path : {"rows/ids/keys", "rows/wide/values", "rows/none/sum", "rows/none"}) {
    put_bytes(path_, whole);

    delete_object(path_, path);

    EXPECT_TRUE(mentions(error(), {path_, "list of tensors"})) << path;
  }
  put_bytes(path_, whole);
  delete_attribute(path_, "/", "step");
  EXPECT_TRUE(mentions(error(), {path_, "no attribute step"}));
}

TEST(RowsOfOtherPrograms, NeedNoStateButKeysAndRowsThatFit) {
  const test::TemporaryFolder folder;
  const std::string good = folder.path("good.h5");
  const auto add = [&](const std::string& file, const std::string& path, std::vector<std::uint64_t> extents,
                       std::vector<float> values, Stored stored = Stored::float32) {
    add_dataset(folder.path(file), path, extents, values, stored);
  };
  const auto error = [&](const std::string& file) {
    return error_of([&] {
      RowFileReader reader(folder.path(file));
      read_rows(reader, 0);
    });
  };
  add("good.h5", "rows/t/values", {2, 3}, {1, 2, 3, 4, 5, 6});
  add("good.h5", "rows/t/keys", {2}, {7, 9}, Stored::unsigned64);
  add("no-keys.h5", "rows/t/values", {1, 1}, {1});
  add("signed.h5", "rows/t/keys", {1}, {1}, Stored::integers);
  add("floats.h5", "rows/t/keys", {1}, {1});
  add("packed.h5", "rows/t/values", {1, 1}, {1}, Stored::compressed);
  add("flat.h5", "rows/t/keys", {2}, {1, 2}, Stored::unsigned64);
  add("flat.h5", "rows/t/values", {2}, {1, 2});
  add("uneven.h5", "rows/t/keys", {2}, {1, 2}, Stored::unsigned64);
  add("uneven.h5", "rows/t/values", {3, 1}, {1, 2, 3});
  add("unsorted.h5", "rows/t/keys", {2}, {2, 2}, Stored::unsigned64);
  add("unsorted.h5", "rows/t/values", {2, 1}, {1, 2});
  add("loose.h5", "rows/values", {2, 1}, {1, 2});

  RowFileReader reader(good);
  const Rows rows = read_rows(reader, 0);

  EXPECT_EQ(rows.keys, (std::vector<std::uint64_t>{7, 9}));
  EXPECT_EQ(rows.values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(mentions(error("no-keys.h5"), {"no-keys.h5", "no dataset /rows/t/keys"}));
  EXPECT_TRUE(mentions(error("signed.h5"), {"signed.h5", "/rows/t/keys", "unsigned 64-bit"}));
  EXPECT_TRUE(mentions(error("floats.h5"), {"floats.h5", "/rows/t/keys", "integers"}));
  EXPECT_TRUE(mentions(error("packed.h5"), {"packed.h5", "/rows/t/values", "contiguous"}));
  EXPECT_TRUE(mentions(error("flat.h5"), {"flat.h5", "/rows/t", "(rows, width)"}));
  EXPECT_TRUE(mentions(error("uneven.h5"), {"uneven.h5", "/rows/t", "(rows, width)"}));
  EXPECT_TRUE(mentions(error("unsorted.h5"), {"unsorted.h5", "/rows/t/keys", "ascend"}));
  EXPECT_TRUE(mentions(error("loose.h5"), {"loose.h5", "/rows/values is not in a table"}));
}

}  // namespace flotilla
