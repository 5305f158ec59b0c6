// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/shards/tar.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/shards/tar_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

// Tar files as their bytes, written here by hand.

namespace flotilla {
namespace {

using test::gnu_size;
using test::tar_end;
using test::tar_member;

class Tar : public ::testing::Test {
 protected:
  File open(const std::string& bytes) const {
    test::save(path(), {bytes.begin(), bytes.end()});
    return File::open(path());
  }
  std::string path() const { return folder_.path("a.tar"); }
  /// "NAME BYTES CONTENTS" of each member.
  std::vector<std::string> members(const std::string& bytes) const {
    const File file = open(bytes);
    tar::Reader reader(file);
    std::vector<std::string> found;
    for (tar::Member member; reader.next(member);) {
      const auto contents = reader.contents(member);
      found.push_back(cat(member.name, " ", member.bytes, " ",
                          std::string(reinterpret_cast<const char*>(contents.data()), contents.size())));
    }
    return found;
  }
  std::string refused(const std::string& bytes) const {
    try {
      members(bytes);
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing";
  }
  void expect_refused(const std::string& bytes, const std::string& text) const {
    EXPECT_EQ(refused(bytes).find(path() + ", byte "), 0U) << refused(bytes);
    EXPECT_NE(refused(bytes).find(text), std::string::npos) << refused(bytes);
  }

 private:
  test::TemporaryFolder folder_;
};

using Texts = std::vector<std::string>;

TEST_F(Tar, HeadersReadBack) {
  const std::string block = tar::header("000000017.jpg", 123456789);
  const auto header = tar::parse_header(std::as_bytes(std::span(block)));

  ASSERT_EQ(block.size(), 512U);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->name, "000000017.jpg");
  EXPECT_EQ(header->bytes, 123456789);
  EXPECT_EQ(header->type, '0');
}

TEST_F(Tar, MembersOfAllFormatsAreListed) {
  const std::string long_name(150, 'l');
  EXPECT_EQ(members(tar_member("a.cls", "1") + tar_member("dir/", "", {.type = '5'}) +
                    tar_member("b.jpg", std::string(512, 'x')) + tar_end()),
            (Texts{"a.cls 1 1", "dir/ 0 ", "b.jpg 512 " + std::string(512, 'x')}));
  EXPECT_EQ(members(tar_member("a.cls", "1", {.prefix = "very/long"}) + tar_end()),
            (Texts{"very/long/a.cls 1 1"}));
  EXPECT_EQ(members(tar_member("a.cls", "1", {.prefix = "14500000000", .gnu = true}) + tar_end()),
            (Texts{"a.cls 1 1"}));
  EXPECT_EQ(members(test::gnu_long_name(long_name) + tar_member(long_name, "1", {.gnu = true}) +
                    tar_member("b.cls", "2", {.gnu = true}) + tar_end()),
            (Texts{long_name + " 1 1", "b.cls 1 2"}));
  EXPECT_EQ(members(test::pax_header("path", "ü/" + long_name) + tar_member("u", "1") +
                    tar_member("b.cls", "2") + tar_end()),
            (Texts{"ü/" + long_name + " 1 1", "b.cls 1 2"}));
  EXPECT_EQ(members(test::pax_header("size", "3") + tar_member("a", "123", {.size = "0"}) +
                    tar_member("b", "2") + tar_end()),
            (Texts{"a 3 123", "b 1 2"}));
  EXPECT_EQ(members(tar_member("a", "123", {.size = gnu_size(3)}) + tar_end()), (Texts{"a 3 123"}));
  EXPECT_EQ(members(tar_member("link", "", {.type = '2', .size = "00000001000"}) + tar_member("b", "2") +
                    tar_end()),
            (Texts{"link 0 ", "b 1 2"}));
  EXPECT_EQ(members(tar_end()), Texts{});
}

TEST_F(Tar, MembersBeyondTheReadersWindowAreFound) {
  std::string bytes;
  Texts names;
  for (int i = 0; i < 40; ++i) {
    const std::string contents(static_cast<std::size_t>(i * 977), 'z');
    bytes += tar_member("m" + std::to_string(i), contents);
    names.push_back(cat("m", i, " ", contents.size(), " ", contents));
  }
  EXPECT_EQ(members(bytes + tar_end()), names);
}

TEST_F(Tar, DamageIsToldWithItsPosition) {
  const std::string good = tar_member("a.cls", "1");
  expect_refused(good + tar_member("b.cls", "2", {.damaged = true}) + tar_end(),
                 "byte 1024: there is no header");
  expect_refused(good, "byte 1024: it ends without the blocks of zeros");
  EXPECT_NE(refused("").find("is an empty file, not a tar file"), std::string::npos) << refused("");
  expect_refused(good + tar_member("b.jpg", std::string(700, 'x')).substr(0, 900),
                 "byte 1924: it ends inside \"b.jpg\", whose 700 bytes begin at byte 1536: it was cut short");
  expect_refused(tar_member("b.jpg", "1", {.size = gnu_size(std::uint64_t{1} << 62)}) + tar_end(),
                 "it ends inside");
  expect_refused(tar_member("b.jpg", "1", {.size = gnu_size(std::uint64_t{1} << 63)}) + tar_end(),
                 "\"b.jpg\" has a size that is no number below 2^63");
  expect_refused(tar_member("b.jpg", "1", {.size = std::string(12, '\xFF')}) + tar_end(), "no number below");
  expect_refused(tar_member("b.jpg", "1", {.size = "12x"}) + tar_end(), "no number below");
  expect_refused(test::pax_header("size", "99999999999999999999") + good + tar_end(),
                 "pax header that cannot be read");
  expect_refused(tar_member("x", "99 path=a\n", {.type = 'x'}) + good + tar_end(),
                 "pax header that cannot be read");
  expect_refused(tar_member("x", std::string(1100000, 'n'), {.type = 'L'}) + good + tar_end(),
                 "a header of 1100000 bytes; 1048576 are the most");
  const test::Bytes zipped = test::gzip(test::Bytes(2000, 7));
  EXPECT_NE(refused(std::string(zipped.begin(), zipped.end()) + std::string(600, 'x')).find("gzip"),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla
