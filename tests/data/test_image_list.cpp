// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/images/image_list.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using test::TemporaryFolder;
using Texts = std::vector<std::string>;

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  test::save(path, {text.begin(), text.end()});
}

struct Wanted {
  bool unique = false;
  bool missing_allowed = false;
  std::string root{};
};

ImageList read(const std::string& path, const Wanted& wanted = {}) {
  return read_image_list(path, {.root = wanted.root,
                                .classes = 3,
                                .unique = wanted.unique,
                                .missing_allowed = wanted.missing_allowed,
                                .root_key = "data.train.root"});
}

std::string mistakes_of(const std::string& path, const Wanted& wanted = {}) {
  try {
    read(path, wanted);
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Texts paths_of(const ImageList& list) {
  Texts paths;
  for (std::int64_t i = 0; i < list.size(); ++i) paths.push_back(list.path(i));
  return paths;
}

TEST(ImageList, OfSeveralFilesHasTheirImagesFromTheirFolders) {
  const TemporaryFolder folder;
  for (const char* name : {"l-2/a.jpg", "b.jpg", "c.jpg"}) write(folder.path(name), "x");
  write(folder.path("l-2.txt"),
        "\xEF\xBB\xBF"
        "a.jpg 0");
  write(folder.path("l-10.txt"),
        "\xEF\xBB\xBF"
        "b.jpg 1\n\nc.jpg 2\n");

  for (const char* pattern : {"l-{2,10}.txt", "l-*.txt"}) {
    const ImageList list = read(folder.path(pattern));
    EXPECT_EQ(paths_of(list), (Texts{folder.path("l-2/a.jpg"), folder.path("b.jpg"), folder.path("c.jpg")}));
    EXPECT_EQ(list.place(2), folder.path("l-10.txt") + ":3: ");
    EXPECT_TRUE(contains(list.description, "of 2 lists")) << list.description;
  }
  write(folder.path("l-10.txt"), "b.jpg 1\nl-2/a.jpg 2\nd.jpg 9\n");
  EXPECT_TRUE(contains(mistakes_of(folder.path("l-*.txt")), "l-10.txt:3: label 9"))
      << mistakes_of(folder.path("l-*.txt"));
  write(folder.path("l-10.txt"), "b.jpg 1\nl-2/a.jpg 2\n");
  EXPECT_TRUE(contains(mistakes_of(folder.path("l-*.txt"), {.unique = true}),
                       "l-10.txt:2: \"l-2/a.jpg\" stands in " + folder.path("l-2.txt") + ":1 too"));
  EXPECT_TRUE(contains(mistakes_of(folder.path("l-{2,3}.txt")), "l-3.txt': No such file"));
}

TEST(ImageList, UnderstandsSpacesTabsCrlfABomAndEmptyLines) {
  const TemporaryFolder folder;
  for (const char* name : {"a.jpg", "b c.jpg", "d.jpg", "  e.jpg"}) write(folder.path("train/") + name, "x");
  write(folder.path("train.txt"),
        "\xEF\xBB\xBF"
        "a.jpg 0\r\n\r\n  b c.jpg \t 2  \n \t\nd.jpg\t1");

  const ImageList list = read(folder.path("train.txt"));

  EXPECT_EQ(paths_of(list),
            (Texts{folder.path("train/a.jpg"), folder.path("train/b c.jpg"), folder.path("train/d.jpg")}));
  EXPECT_EQ(list.entries[0].label, 0);
  EXPECT_EQ(list.entries[1].label, 2);
  EXPECT_EQ(list.entries[2].label, 1);
  EXPECT_EQ(list.place(0), folder.path("train.txt:1: "));
  EXPECT_EQ(list.place(1), folder.path("train.txt:3: "));
  EXPECT_EQ(list.place(2), folder.path("train.txt:5: "));
}

TEST(ImageList, RelativePathsBeginAtTheFolderNamedLikeTheListElseAtTheListsElseAtTheRoot) {
  const TemporaryFolder folder;
  write(folder.path("val/a.jpg"), "x");
  write(folder.path("a.jpg"), "x");
  write(folder.path("elsewhere/a.jpg"), "x");
  write(folder.path("val.txt"), "a.jpg 0\n");
  write(folder.path("other.txt"), "a.jpg 0\n" + folder.path("val/a.jpg") + " 1\n");

  const ImageList beside = read(folder.path("val.txt"));
  const ImageList own = read(folder.path("other.txt"));
  const ImageList named = read(folder.path("val.txt"), {.root = folder.path("elsewhere")});

  EXPECT_EQ(beside.path(0), folder.path("val/a.jpg"));
  EXPECT_TRUE(contains(beside.description, folder.path("val (the folder named like the list)")));
  EXPECT_EQ(paths_of(own), (Texts{folder.path("a.jpg"), folder.path("val/a.jpg")}));
  EXPECT_TRUE(contains(own.description, folder.path() + " (the list's own folder)"));
  EXPECT_EQ(named.path(0), folder.path("elsewhere/a.jpg"));
  EXPECT_TRUE(contains(named.description, folder.path("elsewhere (data.train.root)")));
  EXPECT_TRUE(
      contains(mistakes_of(folder.path("val.txt"), {.root = folder.path("nowhere")}), "data.train.root"));
}

TEST(ImageList, TellsAllKindsOfMistakesAtOnceInTheOrderOfTheLines) {
  const TemporaryFolder folder;
  write(folder.path("a.jpg"), "x");
  write(folder.path("l.txt"),
        "a.jpg 0\n"     // 1
        "a.jpg\n"       // 2
        "a.jpg one\n"   // 3
        "a.jpg 3\n"     // 4
        "gone.jpg 1\n"  // 5
        "a.jpg -1\n"    // 6
        "a.jpg 1.0\n"   // 7
        "a.jpg 2\n"     // 8: again
        "a.jpg,0\n");   // 9
  const std::string l = folder.path("l.txt");

  const std::string text = mistakes_of(l, {.unique = true});

  EXPECT_EQ(text, l + ": the list has 8 mistakes:\n  " + l +
                      ":2: must have a path, white space and a label, got \"a.jpg\"\n  " + l +
                      ":3: the last field must be the label, a whole number, got \"one\"\n  " + l +
                      ":4: label 3 is not in 0 … 2 (model.classes = 3); labels count from 0: correct the "
                      "list or model.classes\n  " +
                      l + ":5: " + folder.path("gone.jpg") + " is missing\n  " + l +
                      ":6: label -1 is not in 0 … 2 (model.classes = 3); labels count from 0: correct the "
                      "list or model.classes\n  " +
                      l + ":7: the last field must be the label, a whole number, got \"1.0\"\n  " + l +
                      ":8: \"a.jpg\" stands in line 1 too; validation counts each image once: take one of "
                      "them out\n  " +
                      l +
                      ":9: must have a path, white space and a label, got \"a.jpg,0\"\n  relative paths "
                      "begin at " +
                      folder.path() + " (the list's own folder); data.train.root names another folder");
}

TEST(ImageList, TellsTheFirstTenMistakesAndTheNumberOfTheOthers) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 25; ++i) text += "a.jpg\n";
  write(folder.path("l.txt"), text);

  const std::string told = mistakes_of(folder.path("l.txt"));

  EXPECT_TRUE(contains(told, "the list has 25 mistakes:")) << told;
  EXPECT_TRUE(contains(told, "l.txt:10: ")) << told;
  EXPECT_FALSE(contains(told, "l.txt:11: ")) << told;
  EXPECT_TRUE(contains(told, "\n  and 15 more")) << told;
}

TEST(ImageList, TheSameImageTwiceIsAMistakeInValidationOnly) {
  const TemporaryFolder folder;
  write(folder.path("a.jpg"), "x");
  write(folder.path("l.txt"), "a.jpg 0\na.jpg 1\n");

  EXPECT_EQ(read(folder.path("l.txt")).size(), 2);
  EXPECT_TRUE(
      contains(mistakes_of(folder.path("l.txt"), {.unique = true}), "l.txt:2: \"a.jpg\" stands in line 1"));
}

TEST(ImageList, OneImageWrittenInTwoWaysIsListedTwice) {
  const TemporaryFolder folder;
  write(folder.path("a.jpg"), "x");
  write(folder.path("b/c.jpg"), "x");
  write(folder.path("l.txt"),
        "a.jpg 0\nb/c.jpg 0\n./a.jpg 0\nb/../b//c.jpg 0\n" + folder.path("a.jpg") + " 0\n");

  const std::string told = mistakes_of(folder.path("l.txt"), {.unique = true});

  EXPECT_TRUE(contains(told, "the list has 3 mistakes:")) << told;
  EXPECT_TRUE(contains(told, "l.txt:3: \"./a.jpg\" stands in line 1 too, as \"a.jpg\"; ")) << told;
  EXPECT_TRUE(contains(told, "l.txt:4: \"b/../b//c.jpg\" stands in line 2 too, as \"b/c.jpg\"; ")) << told;
  EXPECT_TRUE(
      contains(told, "l.txt:5: \"" + folder.path("a.jpg") + "\" stands in line 3 too, as \"./a.jpg\"; "))
      << told;
}

TEST(ImageList, ManyDuplicatesAreCountedAtOnce) {
  const TemporaryFolder folder;
  write(folder.path("a.jpg"), "x");
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "a.jpg 0\n";
  write(folder.path("l.txt"), text);

  const std::string told = mistakes_of(folder.path("l.txt"), {.unique = true});

  EXPECT_TRUE(contains(told, "the list has at least 199999 mistakes:")) << told;
  EXPECT_TRUE(contains(told, "l.txt:11: \"a.jpg\" stands in line 10 too")) << told;
  EXPECT_TRUE(contains(told, "\n  and 199989 more")) << told;
}

TEST(ImageList, MissingImagesMayBeAllowedButNotAllOfThem) {
  const TemporaryFolder folder;
  write(folder.path("a.jpg"), "x");
  write(folder.path("l.txt"), "a.jpg 0\nb.jpg 1\n");
  write(folder.path("none.txt"), "b.jpg 1\nc.jpg 1\n");

  EXPECT_EQ(read(folder.path("l.txt"), {.missing_allowed = true}).size(), 2);
  EXPECT_TRUE(contains(mistakes_of(folder.path("none.txt"), {.missing_allowed = true}), "b.jpg is missing"));
}

TEST(ImageList, LooksUpNoMoreThanAThousandFilesOverTheWholeList) {
  const TemporaryFolder folder;
  write(folder.path("a.jpg"), "x");
  std::string text;
  for (int i = 0; i < 5000; ++i) text += i < 4000 ? "a.jpg 0\n" : "gone.jpg 0\n";
  write(folder.path("l.txt"), text);

  const std::string told = mistakes_of(folder.path("l.txt"));

  EXPECT_TRUE(contains(told, "the list has at least 200 mistakes:")) << told;
  EXPECT_TRUE(contains(told, "l.txt:4001: ")) << told;
}

TEST(ImageList, WhatIsNoListIsTold) {
  const TemporaryFolder folder;
  write(folder.path("empty.txt"), "");
  write(folder.path("blank.txt"), "\n \r\n");
  write(folder.path("utf16.txt"), std::string("\xFF\xFE"
                                              "a\0 \0"
                                              "0\0",
                                              8));
  write(folder.path("long.txt"), std::string(5000, 'x'));

  EXPECT_TRUE(
      contains(mistakes_of(folder.path("empty.txt")), "empty.txt: lists no images; write one per line"));
  EXPECT_TRUE(contains(mistakes_of(folder.path("blank.txt")), "blank.txt: lists no images"));
  EXPECT_TRUE(contains(mistakes_of(folder.path("utf16.txt")), "utf16.txt: is text in UTF-16, not a list"));
  EXPECT_TRUE(contains(mistakes_of(folder.path("gone.txt")), "gone.txt': No such file"));
  EXPECT_TRUE(contains(mistakes_of(folder.path()), "is a folder, not a list"));
  EXPECT_LT(mistakes_of(folder.path("long.txt")).size(), 400U);
}

TEST(ImageList, TakesSixteenBytesAndItsLineForAnImage) {
  const TemporaryFolder folder;
  write(folder.path("a.jpg"), "x");
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "a.jpg 0\n";
  write(folder.path("l.txt"), text);

  const ImageList list = read(folder.path("l.txt"));

  EXPECT_EQ(sizeof(ImageList::Entry), 16U);
  EXPECT_LE(list.text.capacity(), text.size() + 64);
  EXPECT_LE(list.entries.capacity(), 100001U);
}

}  // namespace
}  // namespace flotilla
