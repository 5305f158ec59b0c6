// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/find_data_files.hpp"
#include "tests/data/clicks/click_lines.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using Texts = std::vector<std::string>;

std::string expanded(const std::string& pattern) {
  std::string text;
  for (const std::string& name : expand_braces(pattern)) text += (text.empty() ? "" : " ") + name;
  return text;
}

TEST(Braces, StandForWhatTheyStandForInBash) {
  // As bash 5.2 prints them by echo.
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
