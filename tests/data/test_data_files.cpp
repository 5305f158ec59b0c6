// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/data_file.hpp"
#include "src/data/find_data_files.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using std::literals::string_literals::operator""s;

test::Bytes bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

struct Case {
  std::string contents;
  std::string says;
};

const std::vector<Case> recognised = {
    {"", "an empty file"},
    {"\xFF\xD8\xFF\xE0", "a JPEG image"},
    {"\x89PNG\r\n\x1A\n", "a PNG image"},
    {"RIFF\x24\0\0\0WEBPVP8 "s, "a WebP image"},
    {"\0\0\0\x0CjP  \r\n"s, "a JPEG 2000 image"},
    {"\0\0\0\x18"
     "ftypmif1"s,
     "an HEIC image"},
    {"\0\0\0\x18"
     "ftypisom"s,
     "a video"},
    {"BZh91AY&SY\x12", "a bzip2 file, not wanted; decompress it with bunzip2"},
    {"\xFD\x37zXZ\0\0"s, "an xz file, not wanted; decompress it with unxz"},
    {"\x28\xB5\x2F\xFD\x24", "a zstd file, not wanted; decompress it with unzstd"},
    {"\x89HDF\r\n\x1A\n", "an HDF5 file, not wanted; data.kind = \"hdf5\" reads it"},
    {"user block" + std::string(502, '\0') + "\x89HDF\r\n\x1A\n", "an HDF5 file"},
    {"\x93NUMPY\1\0"s, "a NumPy array (.npy)"},
    {"PK\3\4"s + std::string(22, '\0') + "\5\0\0\0x.npy"s, "a NumPy archive (.npz)"},
    {"PK\3\4"s + std::string(22, '\0') + "\5\0\0\0x.txt"s, "a zip archive"},
    {"\0\0\x08\x03"s, "an IDX file of images"},
    {"\0\0\x0C\x02"s, "an IDX file of labels"},
    {"\x80\4\x95", "a Python pickle"},
    {"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"},
    {"\n<!DOCTYPE html>", "an HTML page"},
    {"a/1.jpg 0\n", "a list of images"},
    {"BMW/1 of 2.PNG\t0\n", "a list of images"},
    {"1" + std::string(39, '\t') + "\n", "a Criteo log"},
    {"+1 3:0.5 7:1\n", "a LIBSVM file"},
    {"# made by x\n\n-1 3:0.5\n", "a LIBSVM file"},
    {"{\"a\": 1}", "a JSON file"},
    {"[[1, 2]]", "a JSON file"},
    {"[run]\noutput = \"x\"", "a TOML file"},
    {"x = 1", "a text file"},
    {"PK\3\4"s + std::string(22, '\0') + "\x10\0\0\0archive/data.pkl"s, "a PyTorch file"},
    {"\x40\0\0\0\0\0\0\0{\"w\":{}}"s, "a file of safetensors"},
    {"\x08\x08\x12\x07pytorch", "an ONNX model"},
    {"x,y\n1,2\n", "a CSV file"},
    {"\1\2\3\4", "a file of an unknown kind"},
    {std::string(3073, '\1'), "a CIFAR file"},
};

std::string told(const std::string& path) {
  return wrong_kind_text(kind_of_path(path), "wanted");
}

using FileKinds = test::InFolder;

TEST_F(FileKinds, IsToldByTheFirstBytes) {
  for (const Case& each : recognised) {
    test::save(folder.path("file"), bytes(each.contents));
    EXPECT_EQ(told(folder.path("file")).substr(0, each.says.size() + 3), "is " + each.says) << each.contents;
  }
}

TEST_F(FileKinds, LooksIntoGzipFiles) {
  test::save(folder.path("idx"), test::gzip(test::images(1, 2, 2)));
  test::save(folder.path("hdf5"), test::gzip(bytes("\x89HDF\r\n\x1A\n")));
  test::save(folder.path("cut"), {0x1F, 0x8B, 8});
  EXPECT_NO_THROW(refuse_other_kinds(folder.path("idx"), FileFormat::idx, "wanted"));
  EXPECT_THROW(refuse_other_kinds(folder.path("hdf5"), FileFormat::hdf5, "wanted"), UserError);

  EXPECT_EQ(told(folder.path("idx")),
            "is an IDX file of images compressed by gzip, not wanted; data.kind = \"idx\" reads it");
  EXPECT_EQ(told(folder.path("hdf5")),
            "is an HDF5 file compressed by gzip, not wanted; decompress it with gunzip; data.kind = \"hdf5\" "
            "reads it");
  EXPECT_EQ(told(folder.path("cut")), "is a gzip file, not wanted; decompress it with gunzip");
}

TEST_F(FileKinds, OfAFolderIsThatOfTheFilesInIt) {
  for (const auto& [file, says] : {std::pair{"a/x.tar", "is a folder of tar files"},
                                   {"b/x.npy", "is a folder of NumPy files"},
                                   {"c/x.h5", "is a folder of HDF5 files"},
                                   {"d/x.JPG", "is a folder of images"},
                                   {"e/class/x.jpg", "is a folder of folders"},
                                   {"f/data_batch_1.bin", "is a folder of CIFAR files"},
                                   {"g/x", "is a folder, not wanted; name a file in it"}}) {
    const std::filesystem::path path = folder.path(file);
    std::filesystem::create_directories(path.parent_path());
    test::save(path, {'x'});
    const std::string top = folder.path(std::string(file).substr(0, 1));
    EXPECT_EQ(told(top).substr(0, std::string(says).size()), says);
    EXPECT_THROW(refuse_other_kinds(top, FileFormat::text, "a list"), UserError);
  }
}

using Texts = std::vector<std::string>;

std::string expanded(const std::string& pattern) {
  std::string text;
  for (const std::string& name : expand_braces(pattern)) text += (text.empty() ? "" : " ") + name;
  return text;
}

TEST(Braces, StandForWhatTheyStandForInBash) {
  // The names are those that echo prints in bash 5.2.
  for (const auto& [pattern, names] : {std::pair{"{0..11}", "0 1 2 3 4 5 6 7 8 9 10 11"},
                                       {"{00..11..5}", "00 05 10"},
                                       {"{0..010..5}", "000 005 010"},
                                       {"{8..011}", "008 009 010 011"},
                                       {"{-1..1}", "-1 0 1"},
                                       {"{-01..1}", "-01 000 001"},
                                       {"{2..0}", "2 1 0"},
                                       {"{0..10..3}", "0 3 6 9"},
                                       {"{10..0..-5}", "10 5 0"},
                                       {"{0..2..0}", "0 1 2"},
                                       {"{a..e..2}", "a c e"},
                                       {"{c..a}", "c b a"},
                                       {"x{a,b}y", "xay xby"},
                                       {"{a,}b", "ab b"},
                                       {"{a,b{1..3},{c,d}}", "a b1 b2 b3 c d"},
                                       {"{{1..2},x}-{y,z}", "1-y 1-z 2-y 2-z x-y x-z"},
                                       {"{x{1,2}}", "{x1} {x2}"},
                                       {"a-{008..009}{x}.tar", "a-008{x}.tar a-009{x}.tar"},
                                       {"a-{2..1}{", "a-2{ a-1{"},
                                       {"{a,b{c,d}", "{a,bc {a,bd"},
                                       {"{}{a}{1..a}{1..}{..2}{1..2..x}", "{}{a}{1..a}{1..}{..2}{1..2..x}"},
                                       {"a}b,c", "a}b,c"}})
    EXPECT_EQ(expanded(pattern), names) << pattern;
  EXPECT_THROW(expand_braces("{0..999999999}"), UserError);
  EXPECT_THROW(expand_braces("{0..9999}{0..9999}"), UserError);
  EXPECT_EQ(expanded("{0..99999999999999999999}"), "{0..99999999999999999999}");
}

class DataFiles : public testing::Test {
 protected:
  DataFiles() {
    for (const char* name : {"day_0", "day_2", "day_10", "x/1", "x/.hidden", "x/_SUCCESS", "x/Thumbs.db"}) {
      std::filesystem::create_directories(std::filesystem::path(folder.path(name)).parent_path());
      test::save_text(folder.path(name), test::libsvm_text(0, 3));
    }
  }
  Texts found(const std::string& pattern) {
    left_out = {};
    Texts names = find_data_files(folder.path(pattern), {}, &left_out);
    for (std::string& name : names) name = name.substr(folder.path("").size());
    return names;
  }

  const test::TemporaryFolder folder;
  LeftOut left_out;
};

TEST_F(DataFiles, AreNamedByFoldersWildcardsAndBraces) {
  EXPECT_EQ(found("day_2"), (Texts{"day_2"}));
  EXPECT_EQ(found("day_{10,2,7}"), (Texts{"day_10", "day_2", "day_7"}));
  EXPECT_EQ(found("day_{?,1*}"), (Texts{"day_0", "day_2", "day_10"}));
  EXPECT_EQ(left_out.text(), "");
  EXPECT_EQ(found("{x,day_0}"), (Texts{"x/1", "day_0"}));
  EXPECT_EQ(left_out.text().substr(0, 39), "; left out: 3 hidden or system files (\"") << left_out.text();
  EXPECT_EQ(found(""), (Texts{"day_0", "day_2", "day_10"}));
  EXPECT_EQ(left_out.text(), "; left out: 1 folder (\"x\")");
  test::save_text(folder.path("{1..2}"), "");
  EXPECT_EQ(found("{1..2}"), (Texts{"{1..2}"}));
  EXPECT_THROW(found("day_{2,*}"), UserError);
}

TEST_F(DataFiles, OfPatternsLieBelowFoldersOfAnyName) {
  for (const std::string name : {"[0-9]", "{a,b}", "*", "back\\slash", "?", "a*{0..2}[x]"}) {
    std::filesystem::create_directory(folder.path(name));
    for (const char* const file : {"/s-0", "/s-1", "/s-11"}) test::save_text(folder.path(name + file), "");
    EXPECT_EQ(found(name + "/s-{0..1}"), (Texts{name + "/s-0", name + "/s-1"}));
    EXPECT_EQ(found(name + "/s-?"), (Texts{name + "/s-0", name + "/s-1"}));
    EXPECT_EQ(found(name + "/s-[01]*"), (Texts{name + "/s-0", name + "/s-1", name + "/s-11"}));
  }
}

TEST_F(DataFiles, OfClicksTakeBracesAndSayWhatTheyLeaveOut) {
  test::save_text(folder.path("day_10"), "# a comment\n\n" + test::libsvm_text(0, 3));
  EXPECT_EQ(test::open_libsvm(folder.path("day_{0..10..10}"))->description(),
            "6 samples of 2 files, day_{0..10..10} (LIBSVM, 33.3 % positive); left out: 2 comment or empty "
            "lines (\"" +
                folder.path("day_10") + "\" …)");
}

}  // namespace
}  // namespace flotilla
