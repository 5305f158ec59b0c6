// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "kernels/error.hpp"
#include "src/data/dataset.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/arrays/bad_arrays.hpp"
#include "tests/support/messages.hpp"

// What files of arrays get that are damaged, on purpose or not, or change while they are read.

namespace flotilla {
namespace {

using test::f32;
using test::mentions;
using test::u8;

class ArrayDamage : public test::BadArrays {};

TEST_F(ArrayDamage, FilesThatAreChangedMeanwhile) {
  save("a.h5", {images, labels});
  const auto plain = open("a.h5");
  save("b.h5", {images, labels}, {.chunk = {2, 2}, .deflate = 4});
  const auto chunked = open("b.h5");
  std::vector<float> sample(2);
  cut("a.h5", 700);
  test::Bytes zeros(std::filesystem::file_size(folder.path("b.h5")));
  test::save(folder.path("b.h5"), zeros);
  for (const Dataset* changed : {plain.get(), chunked.get()}) {
    EXPECT_TRUE(mentions(test::error_of([&] {
                           for (int i = 0; i < 4; ++i) changed->read(i, 0, sample);
                         }),
                         {"do not change it while it is read"}));
  }
}

TEST_F(ArrayDamage, DamagedChunksAreNamed) {
  save("a.h5", {test::counted("images", f32, {64, 16}), test::counted("labels", u8, {64})},
       {.chunk = {16, 16}, .fletcher32 = true});
  data.targets = "images";
  const auto whole = open("a.h5", 16);
  const test::Bytes chunk = test::counted("images", f32, {64, 16}).bytes;
  const test::Bytes second(chunk.begin() + 2 * 1024, chunk.begin() + 3 * 1024);
  test::Bytes damaged = second;
  damaged[100] = '!';
  replace("a.h5", second, damaged);
  const std::string text_of_mistake = mistake("a.h5", 16);
  EXPECT_TRUE(
      mentions(text_of_mistake, {"'a.h5', images: the chunk of rows from 32 on (byte ",
                                 "is damaged: its Fletcher checksum differs; copy or write the file again"}));
}

TEST_F(ArrayDamage, StoredArraysOfAnArchiveAreComparedWithTheirChecksums) {
  data.kind = DataKind::numpy;
  test::save(folder.path("a.npz"), test::npz({images, labels}));
  EXPECT_EQ(mistake("a.npz"), "");
  replace("a.npz", images.bytes, {static_cast<std::uint8_t>(images.bytes[0] ^ 1U)});
  EXPECT_EQ(
      mistake("a.npz"),
      "'a.npz', \"images.npy\": is damaged: it holds other bytes than were packed; copy the file again");
}

/// A program that unpacks itself holds such an archive: its positions count from its own beginning.
TEST_F(ArrayDamage, AnArchiveMayHaveBytesInFrontOfIt) {
  data.kind = DataKind::numpy;
  const test::Bytes front(300, 'x');
  for (const bool zip64 : {false, true}) {
    const test::Bytes archive = test::npz({images, labels}, {.zip64 = zip64});
    test::save(folder.path("a.npz"), test::join(front, archive));
    EXPECT_EQ(mistake("a.npz"), "");
    test::save(folder.path("a.npz"), {archive.begin() + 10, archive.end()});
    EXPECT_TRUE(mentions(mistake("a.npz"), {"is no .npz file, or is truncated or damaged"}));
  }
}

/// In this way a small file would claim to hold many large arrays.
TEST_F(ArrayDamage, ArraysOfAnArchiveThatLieOneOverTheOther) {
  data.kind = DataKind::numpy;
  test::Bytes bytes = test::npz({test::counted("images", f32, {400, 2}), labels});
  // Fields of the directory's entries: checksum and sizes, place.
  const test::Bytes mark = {'P', 'K', 1, 2};
  const auto first = std::ranges::search(bytes, mark).begin();
  const auto second = std::search(first + 1, bytes.end(), mark.begin(), mark.end());
  ASSERT_NE(second, bytes.end());
  std::copy(first + 16, first + 28, second + 16);
  std::copy(first + 42, first + 46, second + 42);
  test::save(folder.path("a.npz"), bytes);
  EXPECT_EQ(mistake("a.npz"),
            "'a.npz', \"labels.npy\": is damaged: its arrays lie one over the other; copy it again, or write "
            "it with numpy.savez");
}

/// A node of a tree of two chunks, without neighbours; after it the length of the first one, its filters, its
/// place in the array and that in the file.
const test::Bytes node_of_chunks = [] {
  test::Bytes node = {'T', 'R', 'E', 'E', 1, 0, 2, 0};
  node.resize(node.size() + 16, 0xFF);
  return node;
}();

/// Behind a block of the user's a chunk is read by HDF5 when the file is opened.
TEST_F(ArrayDamage, ChunksThatAFileCannotHoldTakeNoMemory) {
  test::save_hdf5(folder.path("a.h5"), {images, labels}, {.chunk = {2, 2}}, 512);
  replace("a.h5", node_of_chunks, {0xF0, 0xFF, 0xFF, 0xFF}, 24);
  const std::string text_of_mistake = mistake("a.h5");
  EXPECT_TRUE(mentions(text_of_mistake,
                       {"'a.h5', images: is damaged: a chunk has 4294967280 bytes in the file's list"}));
}

TEST_F(ArrayDamage, ChunksBeyondTheEndAreNotTakenForUnwrittenOnes) {
  save("a.h5", {images, labels}, {.chunk = {2, 2}});
  replace("a.h5", node_of_chunks, {0x80}, 24 + 8 + 3 * 8 + 7);
  EXPECT_EQ(mistake("a.h5"),
            "'a.h5', images: is damaged: a chunk lies beyond the end; copy or write the file again");
}

/// HDF5 1.10 divides by a chunk's size, and reads the names of a group at an address that is none.
TEST_F(ArrayDamage, FilesInWhichHdf5CrashesEndTheProcessWithASentence) {
  save("chunk.h5", {images, labels}, {.chunk = {2, 2}});
  replace("chunk.h5", {2, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0}, {0, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0});
  save("names.h5", {images, labels});
  const test::Bytes symbol_table = {0x11, 0, 16, 0, 0, 0, 0, 0, 0x88, 0, 0, 0, 0, 0, 0, 0};
  test::Bytes without_names = symbol_table;
  without_names.resize(24, 0xFF);
  replace("names.h5", symbol_table, without_names);
  for (const char* name : {"chunk.h5", "names.h5"}) {
    const auto read = [&] {
      std::cerr << mistake(name);
      std::exit(exit_user_error);
    };
    EXPECT_EXIT(read(), testing::ExitedWithCode(exit_user_error), cat(name, ".* damaged"));
  }
}

}  // namespace
}  // namespace flotilla
