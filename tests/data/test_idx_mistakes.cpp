// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/dataset.hpp"
#include "src/files/file.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/files/file_size_limit.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using test::Bytes;

/// A folder with good files "images" (10 of 28x28) and "labels", one of which the test spoils.
class IdxMistake : public testing::Test {
 protected:
  IdxMistake() {
    test::save(images, test::images(10, 28, 28));
    test::save(labels, test::labels(10, 10));
  }

  std::unique_ptr<Dataset> open(std::int64_t classes = 10) const {
    return open_dataset({}, test::idx_source(images, labels), classes, 1);
  }
  std::string complaint(std::int64_t classes = 10) const {
    return test::error_of([&] { open(classes); });
  }

  /// Expects that a file of these contents is refused, naming it and all parts.
  void expect_refused(const std::string& path, const Bytes& contents, std::vector<std::string> parts) const {
    test::save(path, contents);
    parts.push_back(path);
    EXPECT_TRUE(test::mentions(complaint(), parts));
  }

  const test::TemporaryFolder folder;
  std::string images = folder.path("images");
  std::string labels = folder.path("labels");
};

void expect_parts(const std::string& text, std::initializer_list<std::string> parts) {
  EXPECT_TRUE(test::mentions(text, parts));
}

Bytes shortened(Bytes bytes, std::size_t by) {
  bytes.resize(bytes.size() - by);
  return bytes;
}

TEST_F(IdxMistake, IsNotSeenInGoodFiles) {
  EXPECT_EQ(complaint(), "");
}

TEST_F(IdxMistake, MissingFileNamesThePath) {
  labels = folder.path("nowhere");

  expect_parts(complaint(), {labels, "No such file", "check the path"});
}

TEST_F(IdxMistake, FolderInsteadOfAFile) {
  images = folder.path();

  expect_parts(complaint(), {images, "is a folder, not an IDX file of images; name a file in it"});
}

TEST_F(IdxMistake, FifoIsRefusedWithoutWaiting) {
  images = folder.path("fifo");
  ASSERT_EQ(::mkfifo(images.c_str(), 0600), 0);

  expect_parts(complaint(), {images, "not a regular file"});
}

TEST_F(IdxMistake, LoopOfLinksCannotBeOpened) {
  images = folder.path("loop");
  ASSERT_EQ(::symlink(images.c_str(), images.c_str()), 0);

  expect_parts(complaint(), {"cannot read '" + images, "check that it can be read"});
}

TEST_F(IdxMistake, UnreadableFileSaysHowToGetTheRight) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  ASSERT_EQ(::chmod(images.c_str(), 0), 0);

  expect_parts(complaint(), {images, "chmod"});
}

TEST_F(IdxMistake, EmptyFile) {
  expect_refused(labels, {}, {"is empty"});
  expect_refused(labels, test::gzip({}), {"is empty"});
}

TEST_F(IdxMistake, TruncatedMagicNumberAndHeader) {
  expect_refused(images, {0, 0, 8}, {"truncated", "no magic number"});
  expect_refused(images, test::header({2051, 10, 28}), {"truncated", "byte 12 of its 16-byte header"});
}

TEST_F(IdxMistake, TruncatedFileNamesByteAndItem) {
  expect_refused(images, shortened(test::images(10, 28, 28), 784 * 2 + 1),
                 {"truncated", "10 images of 784 bytes", "end at byte 6287", "item 7"});
}

TEST_F(IdxMistake, GzipOfATruncatedFileIsToldLikeThePlainOne) {
  expect_refused(images, test::gzip(shortened(test::images(10, 28, 28), 784 * 2 + 1)),
                 {"truncated", "10 images of 784 bytes", "end at byte 6287", "item 7"});
}

TEST_F(IdxMistake, TruncatedGzipNamesTheByteOfTheCompressedFile) {
  const Bytes whole = test::gzip(test::images(10, 28, 28));
  for (const std::size_t by : {std::size_t{1}, std::size_t{8}, whole.size() / 2, whole.size() - 3}) {
    expect_refused(images, shortened(whole, by), {"truncated", cat("stop at byte ", whole.size() - by)});
  }
}

TEST_F(IdxMistake, WrongChecksumOfGzip) {
  Bytes damaged = test::gzip(test::images(10, 28, 28));
  damaged[damaged.size() - 8] ^= 1;  // CRC-32, then the length
  expect_refused(images, damaged, {"damaged", "incorrect data check"});

  damaged = test::gzip(test::images(10, 28, 28));
  damaged[damaged.size() - 1] ^= 1;
  expect_refused(images, damaged, {"damaged", "incorrect length check"});
}

TEST_F(IdxMistake, FlippedBitOfGzipIsFoundOrChangesNothing) {
  const Bytes whole = test::gzip(test::labels(10, 10));
  int found = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes damaged = whole;
    damaged[bit / 8] = static_cast<std::uint8_t>(damaged[bit / 8] ^ (1U << bit % 8));
    test::save(labels, damaged);
    try {
      const auto data = open();
      for (std::int64_t i = 0; i < 10; ++i) ASSERT_EQ(test::sample_of(*data, i).label, i) << "bit " << bit;
    } catch (const UserError&) {
      ++found;
    }
  }

  // The header's time (4 bytes), flags and system, and some bits that fill up the last byte, mean nothing.
  EXPECT_GT(found, static_cast<int>(8 * whole.size()) - 8 * 8);
}

TEST_F(IdxMistake, SwappedFilesAreRecognised) {
  std::swap(images, labels);

  expect_parts(complaint(),
               {images, "holds labels (magic 2049)", "images (magic 2051) belong here", "swapped?"});
}

TEST_F(IdxMistake, LabelsThatAreImages) {
  test::save(labels, test::gzip(test::images(10, 28, 28)));

  expect_parts(complaint(),
               {labels, "holds images (magic 2051)", "labels (magic 2049) belong here", "swapped?"});
}

TEST_F(IdxMistake, OtherContentsAreDescribed) {
  expect_refused(images, {'<', '!', 'D', 'O', 'C'},
                 {"is a text file, not an IDX file of images; check the path"});

  expect_refused(images, {0x50, 0x4b, 3, 4}, {"is a zip archive, not an IDX file of images; unpack it"});

  expect_refused(images, test::header({0x00000802, 10, 784}),
                 {"IDX in 2 dimensions", "images have 3", "data.kind = \"numpy\""});
  expect_refused(images, {0xFD, '7', 'z', 'X', 'Z', 0}, {"is an xz file", "decompress it with unxz"});
  expect_refused(images, test::header({0x03080000, 10, 28, 28}), {"little-endian"});
}

TEST_F(IdxMistake, DataAfterTheLastItem) {
  expect_refused(images, test::join(test::images(10, 28, 28), {0}), {"too long", "go on after byte 7856"});
  expect_refused(images, test::gzip(test::join(test::images(10, 28, 28), {0})),
                 {"too long", "go on after byte 7856"});
}

TEST_F(IdxMistake, BytesAfterTheGzipDataAreNoneAsForGunzip) {
  const Bytes whole = test::gzip(test::images(10, 28, 28));
  const auto told = [&](const Bytes& more) {
    test::save(images, test::join(whole, more));
    testing::internal::CaptureStderr();
    EXPECT_EQ(complaint(), "");
    return testing::internal::GetCapturedStderr();
  };

  EXPECT_EQ(told(Bytes(1, 0)), "");
  EXPECT_EQ(told(Bytes(600000, 0)), "");
  EXPECT_EQ(told(test::join(Bytes(1000, 0), test::gzip({}))), "");
  EXPECT_EQ(told({'x', 'y', 'z'}),
            cat("flotilla: warning: ", images, ": the 3 bytes behind its gzip data are not read\n"));
  EXPECT_EQ(told({0, 0, 'y'}),
            cat("flotilla: warning: ", images, ": the 1 byte behind its gzip data are not read\n"));
}

TEST_F(IdxMistake, NumbersOfOtherTypesThatAreNoBytes) {
  test::save(labels,
             test::join(test::header({0x00000C01, 10}), test::header({0, 1, 2, 3, 4, 300, 6, 7, 8, 9})));
  expect_parts(complaint(), {labels, "the label 300 at item 5 (byte 28) is no whole number in 0 … 255"});
  expect_refused(labels,
                 test::join(test::header({0x00000C01, 10}), test::header({0, 1, 2, 3, 4, 5, 6, 7, 8})),
                 {"is truncated", "10 labels of 4 bytes"});
  expect_refused(labels, test::gzip(test::join(test::header({0x00000C01, 2}), test::header({0, 1, 2}))),
                 {"too long"});
  expect_refused(labels, test::join(test::header({0x00000C02, 10, 3}), Bytes(120, 0)),
                 {"has 3 columns", "QMNIST's 8"});
  expect_refused(labels, test::join(test::header({0x00000D01, 10}), Bytes(40, 0x3F)), {"the label 0.74"});
  test::save(labels,
             test::join(test::header({0x00000C01, 10}), test::header({0, 1, 2, 3, 4, 50, 6, 7, 8, 9})));
  expect_parts(complaint(), {labels, "label 50 at item 5 (byte 28) is not below model.classes = 10"});
}

TEST_F(IdxMistake, NoItems) {
  expect_refused(images, test::header({2051, 0, 28, 28}), {"holds no images", "bytes 4 to 7"});
}

TEST_F(IdxMistake, ImpossibleExtents) {
  expect_refused(images, test::header({2051, 10, 0, 28}), {"0x28 (bytes 8 to 15)"});
  expect_refused(images, test::header({2051, 0xffffffff, 0xffffffff, 0xffffffff}), {"4294967295x4294967295"});
  expect_refused(images, test::gzip(test::header({2051, 0xffffffff, 8192, 8192})), {"truncated"});
}

TEST_F(IdxMistake, DifferentCountsNameBothFiles) {
  test::save(labels, test::labels(9, 10));

  expect_parts(complaint(), {cat(images, ": holds 10 images"), cat(labels, " holds 9 labels")});
}

TEST_F(IdxMistake, LabelOutOfRangeNamesItemAndByte) {
  Bytes bad = test::labels(10, 10);
  bad[8 + 4] = 12;
  for (const Bytes& contents : {bad, test::gzip(bad)}) {
    expect_refused(labels, contents, {"label 12 at item 4 (byte 12)", "model.classes = 10"});
  }

  EXPECT_EQ(complaint(13), "");
}

TEST_F(IdxMistake, FileThatShrinksDuringTheRun) {
  const auto data = open();
  ASSERT_EQ(::truncate(images.c_str(), 16 + 784 * 3 + 5), 0);

  EXPECT_EQ(test::sample_of(*data, 2).label, 2);
  const std::string text = test::error_of([&] { test::sample_of(*data, 3); });
  expect_parts(text, {images, "ends at byte 2373"});
}

TEST_F(IdxMistake, LabelsThatVanishDuringTheRunAreNotMissed) {
  const auto data = open();
  ASSERT_EQ(::truncate(labels.c_str(), 0), 0);

  EXPECT_EQ(test::sample_of(*data, 7).label, 7);
}

/// Sets an environment variable until the end of the test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* before = std::getenv(name);
    if (before != nullptr) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() {
    if (before_.empty()) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, before_.c_str(), 1);
    }
  }

 private:
  const char* name_;
  std::string before_;
};

TEST_F(IdxMistake, TemporaryFolderThatIsNotThere) {
  test::save(images, test::gzip(test::images(10, 28, 28)));
  const Variable variable("TMPDIR", folder.path("nowhere"));

  expect_parts(complaint(), {folder.path("nowhere"), "inflated copy of " + images, "set TMPDIR"});
}

TEST_F(IdxMistake, NoRoomWhileInflating) {
  test::save(images, test::gzip(test::images(500, 28, 28)));
  test::save(labels, test::labels(500, 10));
  const Variable variable("TMPDIR", folder.path());
  std::string text;
  {
    const FileSizeLimit limit(300 * 1024);
    text = complaint();
  }

  expect_parts(text, {"inflated copy of " + images, "File too large; set TMPDIR"});
}

TEST(TemporaryFile, IsRefusedMoreRoomThanItsDiskHas) {
  File copy = File::temporary(temporary_folder(), "the inflated copy of x.gz");

  const std::string text = test::error_of([&] { copy.reserve(std::int64_t{1} << 52); });
  expect_parts(text, {"the inflated copy of x.gz in ", "needs 4503599627370496 bytes",
                      "set TMPDIR to a folder with more space", "or decompress the file once"});
}

TEST_F(IdxMistake, LeavesNothingInTheTemporaryFolder) {
  test::save(images, test::gzip(test::images(10, 28, 28)));
  std::filesystem::create_directory(folder.path("tmp"));
  const Variable variable("TMPDIR", folder.path("tmp"));

  const auto data = open();

  EXPECT_TRUE(test::mentions(data->description(), {"inflated in " + (folder.path("tmp"))}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("tmp")));
}

}  // namespace
}  // namespace flotilla
