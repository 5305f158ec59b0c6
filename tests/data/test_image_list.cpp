// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/data/images/image_list.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using test::mentions;
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
  return test::error_of([&] { read(path, wanted); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Texts paths_of(const ImageList& list) {
  Texts paths;
  for (std::int64_t i = 0; i < list.size(); ++i) paths.push_back(list.path(i));
  return paths;
}

using ImageLists = test::InFolder;
using ImageFolder = test::InFolder;

TEST_F(ImageLists, OfSeveralFilesHasTheirImagesFromTheirFolders) {
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
    EXPECT_TRUE(mentions(list.description, {"of 2 lists"}));
  }
  write(folder.path("l-10.txt"), "b.jpg 1\nl-2/a.jpg 2\nd.jpg 9\n");
  EXPECT_TRUE(mentions(mistakes_of(folder.path("l-*.txt")), {"l-10.txt:3: label 9"}));
  write(folder.path("l-10.txt"), "b.jpg 1\nl-2/a.jpg 2\n");
  EXPECT_TRUE(mentions(mistakes_of(folder.path("l-*.txt"), {.unique = true}),
                       {"l-10.txt:2: \"l-2/a.jpg\" stands in " + folder.path("l-2.txt") + ":1 too"}));
  EXPECT_TRUE(mentions(mistakes_of(folder.path("l-{2,3}.txt")), {"l-3.txt': No such file"}));
}

TEST_F(ImageLists, UnderstandsSpacesTabsCrlfABomAndEmptyLines) {
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

TEST_F(ImageLists, RelativePathsBeginAtTheFolderNamedLikeTheListElseAtTheListsElseAtTheRoot) {
  write(folder.path("val/a.jpg"), "x");
  write(folder.path("a.jpg"), "x");
  write(folder.path("elsewhere/a.jpg"), "x");
  write(folder.path("val.txt"), "a.jpg 0\n");
  write(folder.path("other.txt"), "a.jpg 0\n" + folder.path("val/a.jpg") + " 1\n");

  const ImageList beside = read(folder.path("val.txt"));
  const ImageList own = read(folder.path("other.txt"));
  const ImageList named = read(folder.path("val.txt"), {.root = folder.path("elsewhere")});

  EXPECT_EQ(beside.path(0), folder.path("val/a.jpg"));
  EXPECT_TRUE(mentions(beside.description, {folder.path("val (the folder named like the list)")}));
  EXPECT_EQ(paths_of(own), (Texts{folder.path("a.jpg"), folder.path("val/a.jpg")}));
  EXPECT_TRUE(mentions(own.description, {folder.path() + " (the list's own folder)"}));
  EXPECT_EQ(named.path(0), folder.path("elsewhere/a.jpg"));
  EXPECT_TRUE(mentions(named.description, {folder.path("elsewhere (data.train.root)")}));
  EXPECT_TRUE(
      contains(mistakes_of(folder.path("val.txt"), {.root = folder.path("nowhere")}), "data.train.root"));
}

TEST_F(ImageLists, TellsAllKindsOfMistakesAtOnceInTheOrderOfTheLines) {
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

  EXPECT_EQ(
      text,
      l + ": the list has 8 mistakes:\n  " + l +
          ":2: must have a path, white space and a label, got \"a.jpg\"\n  " + l +
          ":3: the last field must be the label, a whole number, got \"one\"\n  " + l +
          ":4: label 3 is not in 0 … 2 (model.classes = 3); labels count from 0: correct the list or "
          "model.classes\n  " +
          l + ":5: " + folder.path("gone.jpg") + " is missing\n  " + l +
          ":6: label -1 is not in 0 … 2 (model.classes = 3); labels count from 0: correct the list or "
          "model.classes\n  " +
          l + ":7: the last field must be the label, a whole number, got \"1.0\"\n  " + l +
          ":8: \"a.jpg\" stands in line 1 too; validation counts each image once: take one of them out\n  " +
          l + ":9: must have a path, white space and a label, got \"a.jpg,0\"\n  relative paths begin at " +
          folder.path() + " (the list's own folder); data.train.root names another folder");
}

TEST_F(ImageLists, TellsTheFirstTenMistakesAndTheNumberOfTheOthers) {
  std::string text;
  for (int i = 0; i < 25; ++i) text += "a.jpg\n";
  write(folder.path("l.txt"), text);

  const std::string told = mistakes_of(folder.path("l.txt"));

  EXPECT_TRUE(mentions(told, {"the list has 25 mistakes:", "l.txt:10: "}));
  EXPECT_FALSE(contains(told, "l.txt:11: ")) << told;
  EXPECT_TRUE(mentions(told, {"\n  and 15 more"}));
}

TEST_F(ImageLists, TheSameImageTwiceIsAMistakeInValidationOnly) {
  write(folder.path("a.jpg"), "x");
  write(folder.path("l.txt"), "a.jpg 0\na.jpg 1\n");

  EXPECT_EQ(read(folder.path("l.txt")).size(), 2);
  EXPECT_TRUE(
      contains(mistakes_of(folder.path("l.txt"), {.unique = true}), "l.txt:2: \"a.jpg\" stands in line 1"));
}

TEST_F(ImageLists, OneImageWrittenInTwoWaysIsListedTwice) {
  write(folder.path("a.jpg"), "x");
  write(folder.path("b/c.jpg"), "x");
  write(folder.path("l.txt"),
        "a.jpg 0\nb/c.jpg 0\n./a.jpg 0\nb/../b//c.jpg 0\n" + folder.path("a.jpg") + " 0\n");

  const std::string told = mistakes_of(folder.path("l.txt"), {.unique = true});

  EXPECT_TRUE(
      mentions(told, {"the list has 3 mistakes:", "l.txt:3: \"./a.jpg\" stands in line 1 too, as \"a.jpg\"; ",
                      "l.txt:4: \"b/../b//c.jpg\" stands in line 2 too, as \"b/c.jpg\"; "}));
  EXPECT_TRUE(
      contains(told, "l.txt:5: \"" + folder.path("a.jpg") + "\" stands in line 3 too, as \"./a.jpg\"; "))
      << told;
}

TEST_F(ImageLists, ManyDuplicatesAreCountedAtOnce) {
  write(folder.path("a.jpg"), "x");
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "a.jpg 0\n";
  write(folder.path("l.txt"), text);

  const std::string told = mistakes_of(folder.path("l.txt"), {.unique = true});

  EXPECT_TRUE(mentions(told, {"the list has at least 199999 mistakes:",
                              "l.txt:11: \"a.jpg\" stands in line 10 too", "\n  and 199989 more"}));
}

TEST_F(ImageLists, MissingImagesMayBeAllowedButNotAllOfThem) {
  write(folder.path("a.jpg"), "x");
  write(folder.path("l.txt"), "a.jpg 0\nb.jpg 1\n");
  write(folder.path("none.txt"), "b.jpg 1\nc.jpg 1\n");

  EXPECT_EQ(read(folder.path("l.txt"), {.missing_allowed = true}).size(), 2);
  EXPECT_TRUE(
      mentions(mistakes_of(folder.path("none.txt"), {.missing_allowed = true}), {"b.jpg is missing"}));
}

TEST_F(ImageLists, LooksUpNoMoreThanAThousandFilesOverTheWholeList) {
  write(folder.path("a.jpg"), "x");
  std::string text;
  for (int i = 0; i < 5000; ++i) text += i < 4000 ? "a.jpg 0\n" : "gone.jpg 0\n";
  write(folder.path("l.txt"), text);

  const std::string told = mistakes_of(folder.path("l.txt"));

  EXPECT_TRUE(mentions(told, {"the list has at least 200 mistakes:", "l.txt:4001: "}));
}

TEST_F(ImageLists, WhatIsNoListIsTold) {
  write(folder.path("empty.txt"), "");
  write(folder.path("blank.txt"), "\n \r\n");
  write(folder.path("utf16.txt"), std::string("\xFF\xFE"
                                              "a\0 \0"
                                              "0\0",
                                              8));
  write(folder.path("long.txt"), std::string(5000, 'x'));

  EXPECT_TRUE(
      contains(mistakes_of(folder.path("empty.txt")), "empty.txt: lists no images; write one per line"));
  EXPECT_TRUE(mentions(mistakes_of(folder.path("blank.txt")), {"blank.txt: lists no images"}));
  EXPECT_TRUE(mentions(mistakes_of(folder.path("utf16.txt")), {"utf16.txt: is text in UTF-16, not a list"}));
  EXPECT_TRUE(mentions(mistakes_of(folder.path("gone.txt")), {"gone.txt': No such file"}));
  EXPECT_TRUE(mentions(mistakes_of(folder.path()), {"is a folder, not a list"}));
  EXPECT_LT(mistakes_of(folder.path("long.txt")).size(), 400U);
}

TEST_F(ImageLists, TakesSixteenBytesAndItsLineForAnImage) {
  write(folder.path("a.jpg"), "x");
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "a.jpg 0\n";
  write(folder.path("l.txt"), text);

  const ImageList list = read(folder.path("l.txt"));

  EXPECT_EQ(sizeof(ImageList::Entry), 16U);
  EXPECT_LE(list.text.capacity(), text.size() + 64);
  EXPECT_LE(list.entries.capacity(), 100001U);
}

void put(const TemporaryFolder& folder, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::filesystem::create_directories(std::filesystem::path(folder.path(file)).parent_path());
    test::save(folder.path(file), {'x'});
  }
}

std::string mistake_of(const std::string& path, const ImageFolderOptions& options) {
  return test::error_of([&] { read_image_folder(path, options); });
}

TEST_F(ImageFolder, NumbersClassesAndImagesInByteOrder) {
  put(folder,
      {"train/b/2.JPG", "train/b/10.png", "train/Z/x.jpeg", "train/a b/in/deep/1.jpg", "train/a b/0.jpg",
       "train/b/notes.txt", "train/README", "train/b/.hidden.jpg", "train/.git/x.jpg"});

  const ImageList list = read_image_folder(folder.path("train"), {.classes = 3});

  std::vector<std::string> written;
  std::vector<int> labels;
  for (std::int64_t i = 0; i < list.size(); ++i) {
    written.emplace_back(list.written(i));
    labels.push_back(list.entries[static_cast<std::size_t>(i)].label);
  }
  EXPECT_EQ(written,
            (std::vector<std::string>{"Z/x.jpeg", "a b/0.jpg", "a b/in/deep/1.jpg", "b/10.png", "b/2.JPG"}));
  EXPECT_EQ(labels, (std::vector<int>{0, 1, 1, 2, 2}));
  EXPECT_EQ(list.path(1), folder.path("train/a b/0.jpg"));
  EXPECT_EQ(list.place(1), "");
  EXPECT_EQ(list.description, "5 images of 3 classes in " + folder.path("train"));
  EXPECT_TRUE(mentions(list.left_out.text(), {"2 hidden or system files (", "2 other files ("}));
}

TEST_F(ImageFolder, AnotherNumberOfClassesIsToldWithBothNumbers) {
  put(folder, {"a/1.jpg", "b/1.jpg"});

  const std::string told = mistake_of(folder.path(), {.classes = 10});

  EXPECT_EQ(told, folder.path() +
                      ": has 2 class folders (\"a\", \"b\"), but model.classes = 10; set model.classes = 2 "
                      "or name the folder that the class folders are in");
}

TEST_F(ImageFolder, ImagesWithoutFoldersOfClassesAreToldWhereTheyBelong) {
  put(folder, {"1.jpg", "2.jpg"});

  const std::string told = mistake_of(folder.path(), {.classes = 2});

  EXPECT_TRUE(
      contains(told, "has no folder for a class; the images of each class lie in a folder of their own"));
  EXPECT_FALSE(contains(told, "model.classes"));
}

TEST_F(ImageFolder, SaysWhatItLeavesOut) {
  put(folder, {"a/1.jpg", "a/2.jfif", "a/3.JPE", "a/1.webp", "a/in/2.WEBP", "b/1.png", "b/x.tif",
               "b/Thumbs.db", "__MACOSX/a/._1.jpg", ".DS_Store"});
  test::save(folder.path("a/photo"), {0xFF, 0xD8, 0xFF, 0xE0});
  test::save(folder.path("a/scan.dat"), {'G', 'I', 'F', '8', '9', 'a'});

  const ImageList list = read_image_folder(folder.path(), {.classes = 2});

  EXPECT_EQ(list.size(), 4);
  for (const char* said :
       {"2 WebP images (", "; convert it to JPEG or PNG)", "1 TIFF image (\"x.tif\"",
        "3 hidden or system files (", "1 JPEG image (\"photo\"; let its name end in .jpg or .png)",
        "1 GIF image (\"scan.dat\"; convert"})
    EXPECT_TRUE(mentions(list.left_out.text(), {said})) << said << " is not in " << list.left_out.text();

  put(folder, {"only/a/1.png", "only/b/1.webp"});
  EXPECT_TRUE(mentions(mistake_of(folder.path("only"), {.classes = 2}),
                       {"for class \"b\"; left out: 1 WebP image (\"1.webp\"; convert it to JPEG or PNG)"}));
}

TEST_F(ImageFolder, PartsOfADataSetAreNoClasses) {
  put(folder,
      {"p/Train/a/1.jpg", "p/Train/b/1.jpg", "p/valid/a/1.jpg", "p/annotations/x.json", "q/train/1.jpg",
       "q/test/1.jpg", "r/train/a/1.jpg", "s/test/1.jpg", "s/train/1.jpg", "s/cat/1.jpg"});

  EXPECT_EQ(mistake_of(folder.path("p"), {.classes = 3}),
            folder.path("p") +
                ": its folders \"Train\", \"annotations\", \"valid\" are parts of a data set, not classes; "
                "set data.train.path = \"" +
                folder.path("p/Train") + "\" and data.validation.path = \"" + folder.path("p/valid") + "\"");
  EXPECT_TRUE(mentions(mistake_of(folder.path("q"), {.classes = 2}), {"are parts of a data set"}));
  EXPECT_TRUE(mentions(mistake_of(folder.path("r"), {.classes = 1}), {"are parts of a data set"}));
  EXPECT_EQ(mistake_of(folder.path("s"), {.classes = 3}), "");  // these are classes
}

TEST_F(ImageFolder, AnEmptyClassIsAMistakeOfTrainingOnly) {
  put(folder, {"a/1.jpg", "b/1.txt"});

  EXPECT_TRUE(mentions(mistake_of(folder.path(), {.classes = 2}),
                       {"for class \"b\"; left out: 1 other file (\"1.txt\"); every class needs"}));
  EXPECT_EQ(read_image_folder(folder.path(), {.classes = 2, .empty_classes = true}).size(), 1);
}

TEST_F(ImageFolder, ValidationHasTheClassesOfTraining) {
  put(folder, {"train/a/1.jpg", "train/b/1.jpg", "val/a/1.jpg", "val/c/1.jpg"});

  const std::string told =
      mistake_of(folder.path("val"), {.classes = 2, .empty_classes = true, .same_as = folder.path("train")});

  EXPECT_TRUE(mentions(told, {"; missing: \"b\"; only here: \"c\""}));
  EXPECT_EQ(mistake_of(folder.path("val"), {.classes = 2, .same_as = folder.path("nowhere")}), "");
}

TEST_F(ImageFolder, FolderThatIsMissingOrHasNoImageIsTold) {
  put(folder, {"train/a/1.txt", "file"});

  EXPECT_TRUE(
      contains(mistake_of(folder.path("nowhere"), {.classes = 2}), "nowhere: this folder cannot be read"));
  EXPECT_TRUE(
      contains(mistake_of(folder.path("file"), {.classes = 2}), "file: is a text file, not a folder"));
  EXPECT_TRUE(
      mentions(mistake_of(folder.path("train"), {.classes = 1, .empty_classes = true}), {"no image"}));
}

TEST_F(ImageFolder, ALinkThatLeadsBackIsTold) {
  put(folder, {"a/1.jpg"});
  std::filesystem::create_directory_symlink("..", folder.path("a/back"));

  EXPECT_TRUE(mentions(mistake_of(folder.path(), {.classes = 1}), {"is there a link that leads back?"}));
}

TEST_F(ImageFolder, FollowsLinksToClassesAndLeavesOutThoseToNowhere) {
  put(folder, {"store/a/1.jpg"});
  std::filesystem::create_directory(folder.path("train"));
  std::filesystem::create_directory_symlink(folder.path("store/a"), folder.path("train/a"));
  std::filesystem::create_symlink(folder.path("gone"), folder.path("train/b"));

  EXPECT_EQ(read_image_folder(folder.path("train"), {.classes = 1}).size(), 1);
}

}  // namespace
}  // namespace flotilla
