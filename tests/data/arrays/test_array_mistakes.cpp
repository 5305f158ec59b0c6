// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/dataset.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/arrays/bad_arrays.hpp"
#include "tests/support/messages.hpp"

// What bad files of arrays get: one sentence that names file, array and remedy; of several files all at once.

namespace flotilla {
namespace {

using test::f32;
using test::f64;
using test::mentions;
using test::u8;
using Kind = NumberType::Kind;

class ArrayMistakes : public test::BadArrays {};

TEST_F(ArrayMistakes, MissingArraysAreNamedWithThoseThatAreThere) {
  save("a.h5", {test::counted("run/x", f32, {4, 2}), labels});
  EXPECT_EQ(mistake("a.h5"), "'a.h5' has no array \"images\" (data.inputs): it holds labels, run/x");
  data.targets = "y";
  EXPECT_EQ(mistake("a.h5"),
            "a.h5: 2 mistakes:\n"
            "  'a.h5' has no array \"images\" (data.inputs): it holds labels, run/x\n"
            "  'a.h5' has no array \"y\" (data.targets): it holds labels, run/x");
}

TEST_F(ArrayMistakes, OfSeveralFilesAreToldAtOnce) {
  save("a.h5", {images, labels});
  save("b.h5", {test::counted("images", f32, {4, 3}), labels});
  save("c.h5", {test::counted("images", f64, {4, 2}), test::of_values("labels", u8, {3}, {0, 1, 2})});
  EXPECT_EQ(mistake("*.h5"),
            "3 files, a.h5 to c.h5: 3 mistakes:\n"
            "  'b.h5', images: holds float32 (4,3), but 'a.h5', images float32 (4,2); files are joined along "
            "the first axis only\n"
            "  'c.h5', images: holds float64 (4,2), but 'a.h5', images float32 (4,2); files are joined along "
            "the first axis only\n"
            "  'c.h5', images has 4 rows, but 'c.h5', labels has 3; give two arrays that belong together");
  EXPECT_EQ(mistake("d*.h5"), "d*.h5: no file matches; check the path and its wildcards");
}

TEST_F(ArrayMistakes, FilesThatAreNoHdf5OrCutShort) {
  test::save(folder.path("text.h5"), {'h', 'e', 'l', 'l', 'o'});
  EXPECT_EQ(mistake("text.h5"), "text.h5: is a text file, not an HDF5 file; check the path");
  test::save(folder.path("other.h5"), {1, 2, 3, 4});
  EXPECT_TRUE(mistake("other.h5")
                  .starts_with("'other.h5' is not an HDF5 file, or is truncated or damaged at its start: "))
      << mistake("other.h5");
  save("short.h5", {images, labels});
  cut("short.h5", 20);
  EXPECT_TRUE(mistake("short.h5").starts_with("'short.h5' is not an HDF5 file, or is truncated"))
      << mistake("short.h5");
}

TEST_F(ArrayMistakes, LabelsThatAreNoClasses) {
  save("a.h5", {images, test::of_values("labels", u8, {4}, {0, 1, 3, 9})});
  EXPECT_EQ(mistake("a.h5"),
            "'a.h5', labels: label 3 of sample 2 is not in 0 … 2 (model.classes = 3); labels count from 0: "
            "correct the file or model.classes");
  save("a.h5", {images, test::of_values("labels", {Kind::i64}, {4}, {0, 1, -1, 0})});
  EXPECT_TRUE(mentions(mistake("a.h5"), {"label -1 of sample 2 is not in 0 … 2"}));
  save("a.h5", {images, test::counted("labels", f32, {4})});
  EXPECT_EQ(mistake("a.h5"),
            "'a.h5', labels: holds float32, but labels of classes are integers; write integers, or set "
            "model.loss = \"mse\"");
  save("a.h5", {images, test::counted("labels", u8, {4, 2})});
  EXPECT_EQ(mistake("a.h5"),
            "'a.h5', labels: has the shape (4,2), but labels of classes are one number a sample; see "
            "data.targets and model.loss");
}

TEST_F(ArrayMistakes, TargetsThatCannotBePredicted) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  save("a.h5", {images, test::of_values("labels", f32, {4, 2}, {0, 1, 2, 3, 4, nan, 6, 7})});
  EXPECT_EQ(mistake("a.h5", 2),
            "'a.h5', labels: the target of sample 2 is nan, which no model can predict; leave the sample out "
            "or correct the file");
  save("b.h5", {images, test::of_values("labels", f32, {4, 2}, {0, infinite, 2, 3, 4, 5, 6, 7})});
  EXPECT_EQ(mistake("?.h5", 2),
            "targets: 2 mistakes:\n"
            "  'a.h5', labels: the target of sample 2 is nan, which no model can predict; leave the sample "
            "out or correct the file\n"
            "  'b.h5', labels: the target of sample 0 is inf, which no model can predict; leave the sample "
            "out or correct the file");
  EXPECT_EQ(mistake("a.h5", 3),
            "'a.h5', labels: has the shape (4,2), but the model predicts 3 numbers a sample; see "
            "model.outputs and data.targets");
  data.target_mean = {1, 2, 3};
  save("a.h5", {images, test::counted("labels", f32, {4, 2})});
  EXPECT_EQ(mistake("a.h5", 2),
            "data.target_mean has 3 values, and 'a.h5', labels of shape (4,2) takes 2, or one for all");
}

TEST_F(ArrayMistakes, TargetsThatAreNoLabelsOfTwoKinds) {
  binary = true;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const char* const remedy =
      ", and model.loss = \"binary\" predicts labels of 0 and 1: correct the array, or predict numbers with "
      "model.loss = \"mse\"";
  save("a.h5", {images, test::of_values("labels", f32, {4, 2}, {0, 1, 0.25, 0, 1, 1, 0, 0})});
  EXPECT_EQ(mistake("a.h5", 2), "");
  save("a.h5", {images, test::of_values("labels", f32, {4, 2}, {0, 1, -1, nan, 1, 1, 0, 1.5})});
  EXPECT_EQ(mistake("a.h5", 2),
            std::string("targets: 2 mistakes:\n  'a.h5', labels: the target of sample 1 is -1") + remedy +
                "\n  'a.h5', labels: the target of sample 3 is 1.5" + remedy);
  save("a.h5", {images, test::of_values("labels", u8, {4}, {0, 1, 2, 1})});
  EXPECT_EQ(mistake("a.h5", 1), std::string("'a.h5', labels: the target of sample 2 is 2") + remedy);
  const auto opened = open("a.h5", 1);
  std::vector<float> target(1);
  opened->read_targets(1, target);
  EXPECT_EQ(target[0], 1.0F);
  const std::string text = test::error_of([&] { opened->read_targets(2, target); });
  EXPECT_EQ(without_folder(text), std::string("'a.h5', labels: the target of sample 2 is 2") + remedy);
}

TEST_F(ArrayMistakes, OfAPartOfTheTargetsAreThoseOfItsSamples) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  save("a.h5", {images, test::of_values("labels", f32, {4}, {nan, 1, 2, nan})});
  save("b.h5", {images, test::of_values("labels", f32, {4}, {nan, nan, 2, 3})},
       {.chunk = {3, 2}, .deflate = 1});
  const auto opened = open("?.h5", 1);
  const auto mistakes = [&](std::int64_t first, std::int64_t count) {
    MistakeList list;
    opened->check_targets(first, count, list);
    return list.empty() ? "" : without_folder(test::error_of([&] { list.throw_if_any("labels"); }));
  };
  const auto line = [](const std::string& file, int sample) {
    return "'" + file + ".h5', labels: the target of sample " + std::to_string(sample) +
           " is nan, which no model can predict; leave the sample out or correct the file";
  };
  EXPECT_EQ(mistakes(0, 8), "labels: 4 mistakes:\n  " + line("a", 0) + "\n  " + line("a", 3) + "\n  " +
                                line("b", 0) + "\n  " + line("b", 1));
  EXPECT_EQ(mistakes(1, 4), "labels: 2 mistakes:\n  " + line("a", 3) + "\n  " + line("b", 0));
  EXPECT_EQ(mistakes(6, 2), "");
  std::vector<float> target(1);
  const std::string text = test::error_of([&] { opened->read_targets(5, target); });
  EXPECT_EQ(without_folder(text), line("b", 1));
}

TEST_F(ArrayMistakes, InputsThatAreNotFiniteAreFoundWhenTheyAreRead) {
  save("a.h5", {test::of_values("images", f32, {4, 2},
                                {0, 1, 2, 3, 4, std::numeric_limits<double>::quiet_NaN(), 6, 7}),
                labels});
  const auto opened = open("a.h5");
  std::vector<float> sample(2);
  opened->read(1, 0, sample);
  const std::string text = test::error_of<BadSample>([&] { opened->read(2, 0, sample); });
  EXPECT_EQ(without_folder(text),
            "'a.h5', images: sample 2 has the value nan at position 1 of its inputs; leave the sample out or "
            "correct the file");
}

TEST_F(ArrayMistakes, KeysThatDoNotFitTheArray) {
  save("a.h5", {images, labels});
  data.pixel_scale_given = true;
  EXPECT_EQ(mistake("a.h5"),
            "'a.h5', images: holds float32, and data.mean and data.std are of uint8: give data.input_mean "
            "and data.input_std instead");
  data.pixel_scale_given = false;
  data.input_std = {1, 2, 3};
  EXPECT_EQ(mistake("a.h5"),
            "data.input_std has 3 values, and 'a.h5', images of shape (4,2) takes 2, or one for all");
  data.input_std = {};
  data.channels_last = true;
  EXPECT_EQ(
      mistake("a.h5"),
      "'a.h5', images: data.channels_last is of images (N,H,W,C), and its shape is (4,2); leave it out");
  data.channels_last = false;
  data.flip = 0.5;
  EXPECT_TRUE(mentions(mistake("a.h5"), {"need images of uint8 with 1 to 4 channels"}));
}

TEST_F(ArrayMistakes, OperationsThatTheImagesDoNotSuit) {
  const auto shaped = [&](std::int64_t channels, std::int64_t height, std::int64_t width) {
    save("a.h5", {test::counted("images", u8, {4, channels, height, width}), labels});
    return mistake("a.h5");
  };
  data.rand_augment = 2;
  for (const std::int64_t channels : {2, 4})
    EXPECT_EQ(shaped(channels, 8, 8),
              "data.rand_augment changes colours, which needs images of 1 channel (grey) or 3 (red, green, "
              "blue), and a sample of 4 samples " +
                  std::to_string(channels) + "x8x8 of uint8 in a.h5 (contiguous) is " +
                  std::to_string(channels) + "x8x8 (channels, height, width): leave it out");
  for (const std::int64_t channels : {1, 3}) EXPECT_EQ(shaped(channels, 8, 8), "");
  data.rand_augment = 0;
  data.crop_padding = 8;
  EXPECT_TRUE(mentions(shaped(3, 9, 8), {"data.crop_padding = 8 moves an image by up to as many pixels"}));
  EXPECT_EQ(shaped(2, 9, 9), "");
  data.crop_padding = 0;
  data.erase = 0.5;
  EXPECT_TRUE(mentions(shaped(3, 1, 8), {"data.erase covers a rectangle lower and narrower"}));
  EXPECT_EQ(shaped(4, 2, 2), "");
}

TEST_F(ArrayMistakes, FilesOfNumPy) {
  data.kind = DataKind::numpy;
  test::save(folder.path("labels.npy"), test::npy(labels));
  test::save(folder.path("images.npy"), test::npy(images, 1, true));
  EXPECT_EQ(mistake(""),
            "'images.npy': lies in Fortran order, in which samples do not lie together; write "
            "numpy.ascontiguousarray(array)");
  test::Bytes bytes = test::npy(images);
  bytes.pop_back();
  test::save(folder.path("images.npy"), bytes);
  EXPECT_EQ(mistake(""),
            "'images.npy': is truncated: its header promises 32 bytes of numbers, and 31 follow; copy the "
            "file again, or write it with numpy.save");
  EXPECT_EQ(mistake("images.npy"),
            "'images.npy' is one array, and samples need labels or targets too; name the folder that holds "
            "images.npy and labels.npy, or a .npz file");
  bytes = test::npz({images, labels}, {.deflated = true});
  bytes.resize(bytes.size() - 30);
  test::save(folder.path("a.npz"), bytes);
  EXPECT_EQ(mistake("a.npz"),
            "'a.npz' is no .npz file, or is truncated or damaged: it has no whole directory of its arrays; "
            "copy it again, or write it with numpy.savez");
  bytes = test::npz({images, labels}, {.deflated = true});
  bytes[45 + 12] ^= 0x55;
  test::save(folder.path("a.npz"), bytes);
  EXPECT_TRUE(mentions(mistake("a.npz"), {"is damaged: it inflates to other bytes than were packed"}));
  bytes = test::npz({images, labels}, {.deflated = true});
  const test::Bytes entry = {'P', 'K', 1,
                             2};  // an entry of the directory: its checksum lies 16 bytes further on
  std::ranges::search(bytes, entry).begin()[16] ^= 0x55;
  test::save(folder.path("a.npz"), bytes);
  EXPECT_TRUE(mentions(mistake("a.npz"), {"is damaged: it inflates to other bytes than were packed"}));
}

TEST_F(ArrayMistakes, NumbersInOtherFiles) {
  for (const Elsewhere how : {Elsewhere::external_storage, Elsewhere::virtual_dataset}) {
    const std::string name = how == Elsewhere::external_storage ? "stored.h5" : "virtual.h5";
    add_dataset_elsewhere(folder.path(name), "images", how, folder.path("other.h5"), 4);
    EXPECT_TRUE(mentions(mistake(name), {cat("'", name, "', images: its numbers lie in other files")}));
  }
}

TEST_F(ArrayMistakes, FilesOfCifar) {
  data.kind = DataKind::cifar;
  data.flip = 0.0;
  test::save(folder.path("a.bin"), test::Bytes(3073 + 5, 1));
  EXPECT_EQ(mistake("a.bin"),
            "'a.bin' is no file of CIFAR's, or truncated: its 3078 bytes are no multiple of 3073 (CIFAR-10) "
            "or 3074 (CIFAR-100); give the binary version");
  EXPECT_TRUE(mentions(
      mistake(""), {"this folder holds no files of data.kind = \"cifar\" (data_batch_*.bin or train.bin)"}));
}

}  // namespace
}  // namespace flotilla
