// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/data_reader.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using Names = std::vector<std::string>;

class ClassNames : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path(name)) << text;
  }
  static DataConfig data_of(DataKind kind, const std::string& path) {
    DataConfig data;
    data.kind = kind;
    data.train.path = path;
    return data;
  }
  DataConfig lists() const { return data_of(DataKind::image_list, folder_.path("train.txt")); }
  test::TemporaryFolder folder_;
};

TEST_F(ClassNames, AreTheLinesBesideAListOfImages) {
  EXPECT_EQ(class_names(lists(), 2), Names());
  write("classes.txt", "dress\r\n\nlong sleeve \n");
  EXPECT_EQ(class_names(lists(), 2), (Names{"dress", "long sleeve"}));
}

TEST_F(ClassNames, AreReadBesideTheOriginalOfAStagedList) {
  write("classes.txt", "dress\nhat\n");
  DataConfig staged = lists();
  staged.train.staged_below = folder_.path("staged");
  staged.train.path = staged.train.staged_below + staged.train.path;
  EXPECT_EQ(class_names(staged, 2), (Names{"dress", "hat"}));
}

TEST_F(ClassNames, MayStandBehindTheirNumbers) {
  write("classes.txt", "0 dress\n1 hat\n");
  EXPECT_EQ(class_names(lists(), 2), (Names{"dress", "hat"}));
  write("classes.txt", "0 dress\n7 up\n");
  EXPECT_EQ(class_names(lists(), 2), (Names{"0 dress", "7 up"}));
}

TEST_F(ClassNames, AreTheFoldersOfClasses) {
  for (const char* name : {"train/hat", "train/dress", "train/.hidden"})
    std::filesystem::create_directories(folder_.path(name));
  const DataConfig data = data_of(DataKind::image_folder, folder_.path("train"));
  EXPECT_EQ(class_names(data, 2), (Names{"dress", "hat"}));
}

TEST_F(ClassNames, OfAFileHoldForDataOfAllKindsAndMustFitTheirNumber) {
  write("names", "boot\nbag\n");
  DataConfig data = data_of(DataKind::idx, "");
  data.class_names = folder_.path("names");
  EXPECT_EQ(class_names(data, 2), (Names{"boot", "bag"}));
  EXPECT_THROW(class_names(data, 3), UserError);
}

}  // namespace
}  // namespace flotilla
