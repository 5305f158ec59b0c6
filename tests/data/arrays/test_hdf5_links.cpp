// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/data/arrays/known_arrays.hpp"
#include "src/files/hdf5_handles.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/arrays/bad_arrays.hpp"
#include "tests/support/messages.hpp"

// Links inside an HDF5 file are followed as h5py follows them; links into other files are refused.

namespace flotilla {
namespace {

class Hdf5Links : public test::BadArrays {
 protected:
  void soft(const std::string& file, const std::string& target, const std::string& name) const {
    const hdf5::Session session;
    const hdf5::File handle(H5Fopen(folder.path(file).c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "H5Fopen");
    hdf5::check(H5Lcreate_soft(target.c_str(), handle.id(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                "H5Lcreate_soft");
  }
  std::vector<std::string> names(const std::string& file) const {
    return open_hdf5_arrays(folder.path(file), nullptr)->names();
  }
};

TEST_F(Hdf5Links, InsideTheFileAreFollowed) {
  save("a.h5", {test::of_values("run/raw", test::f32, {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), labels});
  const std::string file = folder.path("a.h5");
  soft("a.h5", "/run/raw", "soft");
  soft("a.h5", "raw", "run/relative");
  soft("a.h5", "/soft", "soft_of_soft");
  soft("a.h5", "/run", "group");
  soft("a.h5", "/run", "run/cycle");
  add_link(file, "/run/raw", "hard");
  add_link(file, "/", "run/up");
  for (const char* name : {"soft", "/soft", "run/relative", "soft_of_soft", "group/raw",
                           "group/cycle/relative", "run/up/run/up/hard", "hard"}) {
    data.inputs = name;
    EXPECT_EQ(test::values_of(*open("a.h5"), 3), (std::vector<float>{6, 7})) << name;
  }
  EXPECT_EQ(names("a.h5"),
            (std::vector<std::string>{"hard", "labels", "run/raw", "run/relative", "soft", "soft_of_soft"}));
  // Many chunks are found by HDF5 while they are read.
  save("b.h5",
       {test::counted("raw", test::f32, {9000, 2}),
        test::of_values("labels", test::u8, {9000}, std::vector<double>(9000))},
       {.chunk = {1, 2}, .deflate = 1});
  soft("b.h5", "/raw", "images");
  data.inputs = "images";
  data.order = SampleOrder::file;
  EXPECT_EQ(test::values_of(*open("b.h5"), 8999)[1],
            static_cast<float>(test::counted_value(test::f32, 17999)));
}

TEST_F(Hdf5Links, ToNothingAreNoArrays) {
  save("a.h5", {images, labels});
  soft("a.h5", "/gone", "gone");
  soft("a.h5", "/gone/deeper", "deeper");
  soft("a.h5", "/images/below", "below");
  soft("a.h5", "/loop", "loop");
  EXPECT_EQ(names("a.h5"), (std::vector<std::string>{"images", "labels"}));
  for (const std::string name : {"gone", "deeper", "below", "loop", "images/below", "nowhere/x", ""}) {
    data.inputs = name;
    EXPECT_EQ(mistake("a.h5"), "'a.h5' has no array \"" + name + "\" (data.inputs): it holds images, labels");
  }
}

TEST_F(Hdf5Links, IntoOtherFilesAreRefusedWithARemedy) {
  save("other.h5", {images, labels});
  for (const Elsewhere how :
       {Elsewhere::external_link, Elsewhere::link_to_external_link, Elsewhere::group_link}) {
    const std::string name = cat(static_cast<int>(how), ".h5");
    data.inputs = how == Elsewhere::group_link ? "group/images" : "images";
    add_dataset_elsewhere(folder.path(name), data.inputs, how, "other.h5", 4);
    EXPECT_TRUE(test::mentions(mistake(name), {cat("'", name, "' has a link to "),
                                               "in another file, 'other.h5', and links into other files are "
                                               "not followed; h5repack --merge OLD NEW"}));
  }
}

/// HDF5 says of a format that it does not know "bad version number for …".
TEST_F(Hdf5Links, AnArrayOfANewerFormatIsNotCalledDamaged) {
  save("a.h5", {images, labels});
  replace("a.h5", {0x89, 'H', 'D', 'F'}, {9}, 8);
  EXPECT_EQ(mistake("a.h5").find("damaged"), std::string::npos);
  EXPECT_TRUE(mistake("a.h5").starts_with("'a.h5' is of a newer HDF5 format than HDF5 1."));
  // The message of a contiguous layout: version 3, class 1, then its address and its 32 bytes.
  save("b.h5", {images, labels});
  replace("b.h5", {3, 1}, {99});
  const std::string said = mistake("b.h5");
  EXPECT_TRUE(said.starts_with("'b.h5' is of a newer HDF5 format than HDF5 1.")) << said;
  EXPECT_TRUE(test::mentions(
      said, {"(bad version number for layout message); python3 scripts/rewrite_hdf5.py OLD NEW"}));
  EXPECT_EQ(names("b.h5"), (std::vector<std::string>{"images", "labels"}));
}

}  // namespace
}  // namespace flotilla
