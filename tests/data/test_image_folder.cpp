// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/images/image_folder.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using test::TemporaryFolder;

void put(const TemporaryFolder& folder, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    std::filesystem::create_directories(std::filesystem::path(folder.path(file)).parent_path());
    test::save(folder.path(file), {'x'});
  }
}

std::string mistake_of(const std::string& path, const ImageFolderOptions& options) {
  try {
    read_image_folder(path, options);
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ImageFolder, NumbersClassesAndImagesInByteOrder) {
  const TemporaryFolder folder;
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
  EXPECT_TRUE(contains(list.left_out.text(), "2 hidden or system files (")) << list.left_out.text();
  EXPECT_TRUE(contains(list.left_out.text(), "2 other files (")) << list.left_out.text();
}

TEST(ImageFolder, AnotherNumberOfClassesIsToldWithBothNumbers) {
  const TemporaryFolder folder;
  put(folder, {"a/1.jpg", "b/1.jpg"});

  const std::string told = mistake_of(folder.path(), {.classes = 10});

  EXPECT_EQ(told, folder.path() +
                      ": has 2 class folders (\"a\", \"b\"), but model.classes = 10; set "
                      "model.classes = 2 or name the folder that the class folders are in");
}

TEST(ImageFolder, ImagesWithoutFoldersOfClassesAreToldWhereTheyBelong) {
  const TemporaryFolder folder;
  put(folder, {"1.jpg", "2.jpg"});

  const std::string told = mistake_of(folder.path(), {.classes = 2});

  EXPECT_TRUE(
      contains(told, "has no folder for a class; the images of each class lie in a folder of their own"));
  EXPECT_FALSE(contains(told, "model.classes"));
}

TEST(ImageFolder, SaysWhatItLeavesOut) {
  const TemporaryFolder folder;
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
    EXPECT_TRUE(contains(list.left_out.text(), said)) << said << " is not in " << list.left_out.text();

  put(folder, {"only/a/1.png", "only/b/1.webp"});
  EXPECT_TRUE(contains(mistake_of(folder.path("only"), {.classes = 2}),
                       "for class \"b\"; left out: 1 WebP image (\"1.webp\"; convert it to JPEG or PNG)"));
}

TEST(ImageFolder, PartsOfADataSetAreNoClasses) {
  const TemporaryFolder folder;
  put(folder,
      {"p/Train/a/1.jpg", "p/Train/b/1.jpg", "p/valid/a/1.jpg", "p/annotations/x.json", "q/train/1.jpg",
       "q/test/1.jpg", "r/train/a/1.jpg", "s/test/1.jpg", "s/train/1.jpg", "s/cat/1.jpg"});

  EXPECT_EQ(mistake_of(folder.path("p"), {.classes = 3}),
            folder.path("p") +
                ": its folders \"Train\", \"annotations\", \"valid\" are parts of a data set, not "
                "classes; set data.train.path = \"" +
                folder.path("p/Train") + "\" and data.validation.path = \"" + folder.path("p/valid") + "\"");
  EXPECT_TRUE(contains(mistake_of(folder.path("q"), {.classes = 2}), "are parts of a data set"));
  EXPECT_TRUE(contains(mistake_of(folder.path("r"), {.classes = 1}), "are parts of a data set"));
  EXPECT_EQ(mistake_of(folder.path("s"), {.classes = 3}), "");  // these are classes
}

TEST(ImageFolder, AnEmptyClassIsAMistakeOfTrainingOnly) {
  const TemporaryFolder folder;
  put(folder, {"a/1.jpg", "b/1.txt"});

  EXPECT_TRUE(contains(mistake_of(folder.path(), {.classes = 2}),
                       "for class \"b\"; left out: 1 other file (\"1.txt\"); every class needs"));
  EXPECT_EQ(read_image_folder(folder.path(), {.classes = 2, .empty_classes = true}).size(), 1);
}

TEST(ImageFolder, ValidationHasTheClassesOfTraining) {
  const TemporaryFolder folder;
  put(folder, {"train/a/1.jpg", "train/b/1.jpg", "val/a/1.jpg", "val/c/1.jpg"});

  const std::string told =
      mistake_of(folder.path("val"), {.classes = 2, .empty_classes = true, .same_as = folder.path("train")});

  EXPECT_TRUE(contains(told, "; missing: \"b\"; only here: \"c\"")) << told;
  EXPECT_EQ(mistake_of(folder.path("val"), {.classes = 2, .same_as = folder.path("nowhere")}), "");
}

TEST(ImageFolder, FolderThatIsMissingOrHasNoImageIsTold) {
  const TemporaryFolder folder;
  put(folder, {"train/a/1.txt", "file"});

  EXPECT_TRUE(
      contains(mistake_of(folder.path("nowhere"), {.classes = 2}), "nowhere: this folder cannot be read"));
  EXPECT_TRUE(
      contains(mistake_of(folder.path("file"), {.classes = 2}), "file: is a text file, not a folder"));
  EXPECT_TRUE(contains(mistake_of(folder.path("train"), {.classes = 1, .empty_classes = true}), "no image"));
}

TEST(ImageFolder, ALinkThatLeadsBackIsTold) {
  const TemporaryFolder folder;
  put(folder, {"a/1.jpg"});
  std::filesystem::create_directory_symlink("..", folder.path("a/back"));

  EXPECT_TRUE(contains(mistake_of(folder.path(), {.classes = 1}), "is there a link that leads back?"));
}

TEST(ImageFolder, FollowsLinksToClassesAndLeavesOutThoseToNowhere) {
  const TemporaryFolder folder;
  put(folder, {"store/a/1.jpg"});
  std::filesystem::create_directory(folder.path("train"));
  std::filesystem::create_directory_symlink(folder.path("store/a"), folder.path("train/a"));
  std::filesystem::create_symlink(folder.path("gone"), folder.path("train/b"));

  EXPECT_EQ(read_image_folder(folder.path("train"), {.classes = 1}).size(), 1);
}

}  // namespace
}  // namespace flotilla
