// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <initializer_list>
#include <string>

#include "tests/data/clicks/click_lines.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using test::mentions;

class ClickMistake : public testing::Test {
 protected:
  void expect(const std::string& kind, const std::initializer_list<std::string> parts) const {
    EXPECT_TRUE(test::mentions(test::complaint_of(kind, path), parts));
  }
  void write(const std::string& text) const { test::save_text(path, text); }
  /// Expects that a file with this text is refused, with all parts in the message.
  void expect_refused(const std::string& kind, const std::string& text,
                      const std::initializer_list<std::string> parts) const {
    write(text);
    expect(kind, parts);
  }

  const test::TemporaryFolder folder;
  std::string path = folder.path("clicks.tsv");
};

TEST_F(ClickMistake, IsNotSeenInGoodFiles) {
  write(test::criteo_text(0, 300));
  EXPECT_EQ(test::complaint_of("criteo", path), "");
  write(test::libsvm_text(0, 300));
  EXPECT_EQ(test::complaint_of("libsvm", path), "");
}

TEST_F(ClickMistake, MissingFilesFoldersAndPatterns) {
  expect("criteo", {path, "No such file", "check the path"});
  path = folder.path("day_*");
  expect("criteo", {path, "no file matches"});
  path = folder.path();
  expect("criteo", {path, "holds no files"});
  std::filesystem::create_directory(folder.path("inner"));
  test::save_text(folder.path(".hidden"), "1");
  expect("libsvm", {path, "holds no files"});
  path = folder.path("fifo");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect("criteo", {path, "not a regular file"});
}

TEST_F(ClickMistake, EmptyFiles) {
  expect_refused("criteo", "", {path, "is empty"});
  test::save_gzip(path, "");
  expect("criteo", {path, "is empty"});
  expect_refused("criteo", "\n\r\n\n", {path, "holds no sample"});
  expect_refused("libsvm", "# nothing\n\n", {path, "holds no sample"});
}

TEST_F(ClickMistake, TruncatedAndDamagedGzipFiles) {
  test::Bytes bytes = test::gzip(test::bytes_of(test::criteo_text(0, 500)));
  bytes.resize(bytes.size() / 2);
  test::save(path, bytes);
  expect("criteo", {path, "is truncated"});
  bytes = test::gzip(test::bytes_of(test::criteo_text(0, 500)));
  bytes[bytes.size() / 2] ^= 0x55U;
  test::save(path, bytes);
  expect("criteo", {path, "damaged"});
}

TEST_F(ClickMistake, GzipFilesThatInflateWithoutEnd) {
  const test::Bytes member = test::gzip(test::bytes_of(std::string(std::size_t{1} << 20, '\n')));
  test::Bytes bytes;
  for (int i = 0; i < 65; ++i) bytes.insert(bytes.end(), member.begin(), member.end());
  test::save(path, bytes);

  expect("libsvm", {path, "inflates to more than 67108864, which no log of samples does"});
}

TEST_F(ClickMistake, AmongTheFirstLinesIsToldWhenOpened) {
  write(test::criteo_text(0, 5) + "\n" + test::criteo_line(5) + "\t\n" + test::criteo_text(6, 9));
  EXPECT_THROW(test::open_criteo(path), UserError);
  expect("criteo", {path + ":7: has 41 columns"});
  write("1 1:1\n0 2:x\n");
  EXPECT_THROW(test::open_libsvm(path), UserError);
  expect("libsvm", {path + ":2: the value"});
}

TEST_F(ClickMistake, FurtherDownIsToldWithItsLineWhenItIsRead) {
  write(test::criteo_text(0, 200) + "\n\n" + test::criteo_line(200) + "\t\n" + test::criteo_text(201, 300));
  EXPECT_EQ(test::open_criteo(path)->size(), 300);
  expect("criteo", {path + ":203: has 41 columns"});
  test::save_gzip(path, test::libsvm_text(0, 150) + "# note\n+1 3\n" + test::libsvm_text(0, 150));
  expect("libsvm", {path + ":152: after the label"});
}

TEST_F(ClickMistake, InASecondFileIsToldWithItsName) {
  write(test::criteo_text(0, 200));
  const std::string second = folder.path("clicks2.tsv");
  test::save_text(second, test::criteo_text(0, 120) + "1\tx\n");
  path = folder.path();
  expect("criteo", {second + ":121: has 2 columns"});
}

TEST_F(ClickMistake, LabelsOutsideTheTwoClassesAreToldWhenOpened) {
  write(test::criteo_text(0, 1000) + "3" + test::criteo_line(1).substr(1));
  EXPECT_THROW(test::open_criteo(path), UserError);
  expect("criteo", {path + ":1001: the label (column 1) must be 0 or 1, got \"3\""});
  write(test::libsvm_text(0, 1000) + "3 1:1\n");
  EXPECT_THROW(test::open_libsvm(path), UserError);
  expect("libsvm", {path + ":1001: the label must be one of two classes"});
}

TEST_F(ClickMistake, LabelsOfBothConventionsCannotBeTold) {
  expect_refused("libsvm", "+1 1:1\n-1 1:1\n1 1:1\n0 1:1\n",
                 {path + ":4: ", "both -1 (" + path + ":2) and 0 (" + path + ":4)"});
  write("+1 1:1\n-1 1:1\n");
  test::save_text(folder.path("second"), "1 1:1\n0 1:1\n");
  path = folder.path();
  expect("libsvm", {"both -1", "and 0", "write all in one way"});
  test::save_text(folder.path("second"), "1 1:1\n2 1:1\n");
  expect("libsvm", {"both -1", "and 2 (" + folder.path("second") + ":2)"});
}

TEST_F(ClickMistake, AOneThatIsAnotherClassInTheTrainingData) {
  const auto told = [&](const std::string& training, const std::string& validation) {
    write(training);
    test::save_text(folder.path("validation"), validation);
    DataConfig data;
    data.kind = DataKind::libsvm;
    data.train.path = path;
    data.validation.path = folder.path("validation");
    try {
      const auto opened = open_dataset(data, data.validation, 2, 1, {.training = false});
      std::string labels;
      for (const test::Sample& sample : test::read_all(*opened)) labels += std::to_string(sample.label);
      return labels;
    } catch (const UserError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(told("1 1:1\n2 1:1\n", "1 1:1\n1 2:1\n"), "00");
  EXPECT_EQ(told("2 1:1\n1 1:1\n", "2 1:1\n1 2:1\n"), "10");
  EXPECT_EQ(told("0 1:1\n1 1:1\n", "1 1:1\n1 2:1\n"), "11");
  EXPECT_EQ(told("-1 1:1\n1 1:1\n", "1 1:1\n0 2:1\n"), "10");
  EXPECT_EQ(told("1 1:1\n0 1:1\n", "1 1:1\n2 2:1\n"),
            folder.path("validation") +
                ":2: has the label 2, but a 1 is the second class in the training data (" + path +
                ":2); write all in one way");
  EXPECT_TRUE(mentions(told("1 1:1\n", "1 1:1\n2 2:1\n"), {"the second class in the training data;"}));
  EXPECT_EQ(told("1 1:1\n2 1:1\n", "1 1:1\n-1 2:1\n"),
            folder.path("validation") + ":2: has the label -1, but the training data have labels 1 and 2 (" +
                path + ":2); write all in one way");
  EXPECT_EQ(test::read_all(*test::open_libsvm(folder.path("validation")))[1].label, 0);
}

TEST_F(ClickMistake, ACriteoLineWithoutALabelHasAColumnTooFew) {
  std::string lines;
  for (int i = 2; i < 9; ++i) lines += test::criteo_line(i).substr(2) + "\n";
  expect_refused(
      "criteo", lines,
      {path + ":1: has 39 columns, but 40 belong here", "is the label missing?", "flotilla predict"});
}

TEST_F(ClickMistake, OtherKindsOfFiles) {
  expect_refused("criteo", std::string("PK\3\4\0\0\0\0binary\n", 15),
                 {path + ": is a zip archive, not a Criteo log; unpack it with unzip"});
  expect("libsvm", {path + ": is a zip archive, not a LIBSVM file; unpack it with unzip"});
  expect_refused("libsvm", std::string("BZh91AY&SY\0", 11),
                 {path + ": is a bzip2 file, not a LIBSVM file; decompress it with bunzip2"});
  expect_refused("libsvm", std::string("\1\2\0", 3),
                 {path + ": is a file of an unknown kind, not a LIBSVM file"});
  expect_refused("criteo", "label,I1,I2\n1,2,3\n", {path + ":1: has 1 column,"});
  expect_refused("criteo", std::string(40'000'000, 'x'), {path, "longer than 16 MiB"});
  expect_refused("criteo", test::libsvm_text(1, 10),
                 {path + ": is a LIBSVM file, not a Criteo log; data.kind = \"libsvm\" reads it"});
  expect_refused("libsvm", test::criteo_text(0, 10),
                 {path + ": is a Criteo log, not a LIBSVM file; data.kind = \"criteo\" reads it"});
  test::save_gzip(path, test::criteo_text(0, 10));
  expect("libsvm", {path + ": is a Criteo log compressed by gzip, not a LIBSVM file; data.kind"});
}

TEST_F(ClickMistake, AFileThatShrinksDuringTheRunIsNoticed) {
  write(test::criteo_text(0, 5000));
  const auto data = test::open_criteo(path);
  const auto reader = data->bag_reader();
  std::filesystem::resize_file(path, 100);

  EXPECT_TRUE(mentions(test::error_of([&] { test::read_sample(*data, *reader, 4000); }),
                       {"do not change data during a run"}));
}

}  // namespace
}  // namespace flotilla
