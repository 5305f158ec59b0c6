// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "src/data/idx_data.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Training on arrays: the bits of the losses are those of the same samples in IDX files.

namespace flotilla {
namespace {

/// The items of an IDX file as an array.
test::StoredArray digits(const char* name, IdxKind kind, const std::string& path,
                         const NumberType& type = {}) {
  const IdxFile idx = open_idx(path, kind);
  test::StoredArray array{
      name, {}, {idx.items}, test::Bytes(static_cast<std::size_t>(idx.items * idx.item_bytes()))};
  if (kind == IdxKind::images) array.extents.insert(array.extents.end(), {idx.rows, idx.columns});
  idx.bytes.read(idx.begin, std::as_writable_bytes(std::span(array.bytes)));
  if (type.is_byte()) return array;
  return test::of_values(name, type, array.extents, {array.bytes.begin(), array.bytes.end()});
}

class RunsOnArrays : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string mnist = test::source_path("inputs/data/mnist/");
    images = digits("images", IdxKind::images, mnist + "t10k-images-idx3-ubyte.gz");
    labels = digits("labels", IdxKind::labels, mnist + "t10k-labels-idx1-ubyte.gz", {NumberType::Kind::i64});
    idx = {"data.kind=idx", "data.train.images=" + mnist + "t10k-images-idx3-ubyte.gz",
           "data.train.labels=" + mnist + "t10k-labels-idx1-ubyte.gz",
           "data.validation.images=", "data.validation.labels="};
  }

  /// The losses of each step as they are written.
  std::vector<std::string> losses(int ranks, const std::string& order, const std::vector<std::string>& data) {
    const std::string output = folder.path("run");
    std::filesystem::remove_all(output);
    std::vector<std::string> command = {"train",
                                        test::source_path("inputs/mnist_mlp.toml"),
                                        "run.output=" + output,
                                        "run.log_every=1",
                                        "train.epochs=0",
                                        "train.steps=12",
                                        "train.global_batch_size=64",

                                        "schedule.kind=constant",
                                        "validation.every=0",
                                        "device.threads=1",
                                        "run.reproducible=true",
                                        "data.order=" + order,
                                        "data.threads=2"};
    if (order == "blocks")
      command.insert(command.end(), {"data.shuffle_block=16", "data.shuffle_buffer=256"});
    command.insert(command.end(), data.begin(), data.end());
    const test::Result result = test::flotilla(ranks, command);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    std::vector<std::string> texts;
    for (const auto& line : test::metrics(output, "step")) texts.push_back(line["loss"].dump());
    return texts;
  }

  test::TemporaryFolder folder;
  test::StoredArray images;
  test::StoredArray labels;
  std::vector<std::string> idx;
};

TEST_F(RunsOnArrays, HaveTheLossesOfIdxToTheBit) {
  test::save_hdf5(folder.path("digits.h5"), {images, labels},
                  {.chunk = {48, 28, 28}, .shuffle = true, .deflate = 1});
  test::save(folder.path("digits.npz"), test::npz({images, labels}, {.deflated = true}));
  std::filesystem::create_directory(folder.path("npy"));
  test::save(folder.path("npy/images.npy"), test::npy(images));
  test::save(folder.path("npy/labels.npy"), test::npy(labels));
  for (const char* order : {"shuffled", "file", "blocks"}) {
    const std::vector<std::string> expected = losses(1, order, idx);
    ASSERT_EQ(expected.size(), 12U);
    // Chunks of 8 MB with a cache of 1: decoded again, or inflated once where they are shuffled.
    const std::vector<std::string> hdf5 = {"data.kind=hdf5", "data.train.path=" + folder.path("digits.h5"),
                                           "data.cache_mb=1"};
    EXPECT_EQ(losses(1, order, hdf5), expected) << order;
    EXPECT_EQ(losses(2, order, hdf5), expected) << order;
    EXPECT_EQ(losses(4, order, {"data.kind=numpy", "data.train.path=" + folder.path("npy")}), expected)
        << order;
    EXPECT_EQ(losses(1, order, {"data.kind=numpy", "data.train.path=" + folder.path("digits.npz")}), expected)
        << order;
  }
}

TEST_F(RunsOnArrays, StagePredictAndInspectFilesOfArrays) {
  images.extents[0] = labels.extents[0] = 256;
  images.bytes.resize(256 * 784);
  labels.bytes.resize(256 * 8);
  test::save_hdf5(folder.path("a.h5"), {images, labels}, {.chunk = {32, 28, 28}, .deflate = 1});
  const std::vector<std::string> data = {"data.kind=hdf5", "data.train.path=" + folder.path("a.h5")};
  std::vector<std::string> staged = data;
  staged.push_back("data.stage_to=" + folder.path("stage"));
  EXPECT_EQ(losses(2, "file", staged), losses(2, "file", data));

  const test::Result predicted =
      test::flotilla(1, {"predict", folder.path("run"), folder.path("a.h5"), "data.kind=hdf5"});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.errors;
  EXPECT_EQ(test::count(predicted.output, "\n"), 257);

  test::save(folder.path("narrow.npz"), test::npz({test::counted("images", {}, {8, 28, 27}), labels}));
  const auto expect_refused = [&](const std::vector<std::string>& arguments, const std::string& sentence) {
    std::vector<std::string> command = {"predict", folder.path("run"),
                                        "data.class_names=" + folder.path("digits.txt")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    test::expect_told(test::flotilla(2, command), sentence);
  };
  test::write_file(folder.path("digits.txt"), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  expect_refused({folder.path("narrow.npz"), "data.kind=numpy"},
                 "the samples have another shape than those that " + folder.path("run") + "/checkpoints/");
  expect_refused({folder.path("narrow.npz")},
                 "narrow.npz: is a NumPy archive (.npz), not an HDF5 file; data.kind = \"numpy\" reads it");
  expect_refused(
      {folder.path("a.h5"), "--output", folder.path("predictions.h5")},
      "cannot write CSV as '" + folder.path("predictions.h5") + "': give a name that ends in .csv");

  const test::Result shown = test::flotilla(1, {"inspect", folder.path("a.h5")});
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  for (const char* text : {"images", "(256,28,28)", "uint8", "chunks of (32,28,28), deflate",
                           "inputs = \"images\"", "input_mean = [0.1", "targets = \"labels\""})
    EXPECT_NE(shown.output.find(text), std::string::npos) << text << "\n" << shown.output;
  for (const char* text : {"inputs = \"labels\"", "targets = \"images\"", "target_mean"})
    EXPECT_EQ(shown.output.find(text), std::string::npos) << text << "\n" << shown.output;
  const test::Result deck = test::flotilla(1, {"inspect", "--deck", folder.path("a.h5")});
  ASSERT_EQ(deck.exit_code, 0) << deck.errors;
  test::write_file(folder.path("made.toml"), deck.output);
  const test::Result checked = test::flotilla(1, {"train", "--check", folder.path("made.toml")});
  EXPECT_EQ(checked.exit_code, 0) << checked.errors << deck.output;
  EXPECT_NE(checked.output.find("the deck is good"), std::string::npos) << checked.output;
}

// 64 or 96 and 192 samples for two workers: 6 steps of 2 × 32, or 12 of 2 × 16, an epoch.
TEST_F(RunsOnArrays, SpreadTheLearningRateOverTheStepsOfTheLargestShare) {
  const auto save = [&](const std::string& path, std::int64_t rows, std::int64_t chunk) {
    images.extents[0] = labels.extents[0] = rows;
    images.bytes.resize(static_cast<std::size_t>(rows) * 784);
    labels.bytes.resize(static_cast<std::size_t>(rows) * 8);
    test::save_hdf5(path, {images, labels}, {.chunk = {chunk, 28, 28}, .deflate = 1});
  };
  save(folder.path("coarse.h5"), 288, 96);
  std::filesystem::create_directory(folder.path("files"));
  save(folder.path("files/b.h5"), 192, 32);
  save(folder.path("files/a.h5"), 64, 32);
  for (const auto& [deal, path] : {std::pair("files", "files"), std::pair("bytes", "coarse.h5")}) {
    const std::string output = folder.path(deal + std::string("-run"));
    const auto train = [&](const std::string& batch, const std::string& steps) {
      const test::Result result =
          test::flotilla(2, {"train", test::source_path("inputs/mnist_mlp.toml"), "run.output=" + output,
                             "run.log_every=1", "device.threads=1", "data.kind=hdf5",
                             "data.train.path=" + folder.path(path), std::string("data.deal=") + deal,
                             "data.order=file", "train.batch_size=" + batch, "train.epochs=2",
                             "train.steps=" + steps, "schedule.kind=linear", "schedule.learning_rate=0.001"});
      EXPECT_EQ(result.exit_code, 0) << result.errors;
    };

    train("32", "4");
    train("16", "0");  // another batch inside the epoch: 4 of 6 steps are as 8 of 12

    const auto steps = test::metrics(output, "step");
    ASSERT_EQ(steps.size(), 4U + 4U + 12U) << deal;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::size_t of_24 = i < 4 ? 2 * i : i + 4;
      EXPECT_TRUE(test::within(steps[i].at("learning_rate").get<double>(),
                               0.001 * (1.0 - static_cast<double>(of_24) / 24.0),
                               0.001 * 16 * test::double_rounding))
          << deal << ", step " << i;
    }
  }
}

/// HDF5 1.10 divides by the size of a chunk when it opens the array.
TEST_F(RunsOnArrays, AChunkOfSize0IsADamagedFile) {
  images.extents[0] = labels.extents[0] = 64;
  images.bytes.resize(64 * 784);
  labels.bytes.resize(64 * 8);
  test::save_hdf5(folder.path("a.h5"), {images, labels}, {.chunk = {7, 13, 11}, .deflate = 1});
  std::string bytes = test::read_file(folder.path("a.h5"));
  const std::string extents("\7\0\0\0\15\0\0\0\13\0\0\0", 12);
  const std::size_t place = bytes.find(extents);
  ASSERT_NE(place, std::string::npos);
  bytes.replace(place, 4, 4, '\0');
  test::write_file(folder.path("a.h5"), bytes);
  for (const int ranks : {1, 2}) {
    const test::Result result = test::flotilla(
        ranks, {"train", test::source_path("inputs/mnist_mlp.toml"), "run.output=" + folder.path("run"),
                "data.kind=hdf5", "data.train.path=" + folder.path("a.h5")});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.errors.find("'" + folder.path("a.h5") + "'"), std::string::npos) << result.errors;
    EXPECT_NE(result.errors.find("is damaged"), std::string::npos) << result.errors;
  }
}

TEST_F(RunsOnArrays, MistakesOfAllFilesEndTheJobOnceWithExitCode2) {
  images.extents[0] = labels.extents[0] = 64;
  images.bytes.resize(64 * 784);
  labels.bytes.resize(64 * 8);
  test::save_hdf5(folder.path("a.h5"), {images, labels});
  test::save_hdf5(folder.path("b.h5"), {images});
  test::save(folder.path("c.h5"), {'n', 'o'});
  const test::Result result = test::flotilla(
      2, {"train", test::source_path("inputs/mnist_mlp.toml"), "run.output=" + folder.path("run"),
          "data.kind=hdf5", "data.train.path=" + folder.path("?.h5")});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(test::count(result.errors, "?.h5: 2 mistakes:"), 1) << result.errors;
  EXPECT_NE(result.errors.find("has no array \"labels\" (data.targets): it holds images"), std::string::npos);
  EXPECT_NE(result.errors.find("c.h5: is a text file, not an HDF5 file"), std::string::npos) << result.errors;
}

/// A deck for vectors of 4 floats and a label or target of them.
std::string vectors_deck(const std::string& loss) {
  return "[model]\nwidths = []\n" + loss +
         "[data]\nkind = \"hdf5\"\ninputs = \"x\"\ntargets = \"y\"\norder = \"file\"\n"
         "[train]\nepochs = 1\nglobal_batch_size = 8\n[schedule]\nlearning_rate = 0.1\n"
         "[device]\nthreads = 1\n";
}

TEST_F(RunsOnArrays, AnInputThatIsNotFiniteEndsTheJobWithItsSampleRankAndStep) {
  std::vector<double> values(64 * 4, 1.0);
  values[45 * 4 + 2] = std::numeric_limits<double>::infinity();
  const NumberType f32{NumberType::Kind::f32};
  test::save_hdf5(folder.path("a.h5"), {test::of_values("x", f32, {64, 4}, values),
                                        test::of_values("y", {}, {64}, std::vector<double>(64))});
  test::write_file(folder.path("deck.toml"), vectors_deck("classes = 2\n"));
  const test::Result result =
      test::flotilla(2, {"train", folder.path("deck.toml"), "run.output=" + folder.path("run"),
                         "data.train.path=" + folder.path("a.h5"), "data.prefetch=1"});
  EXPECT_EQ(result.exit_code, 2);
  // With steps of 8 samples, 4 on each rank, rank 1 reads sample 45 in the sixth step.
  for (const char* text : {"a.h5', x: sample 45 has the value inf at position 2", "rank 1", "step 5"})
    EXPECT_NE(result.errors.find(text), std::string::npos) << text << "\n" << result.errors;
}

TEST_F(RunsOnArrays, TargetsThatAreNoLabelsOfAllFilesEndTheJobAtTheStart) {
  const NumberType f32{NumberType::Kind::f32};
  std::vector<double> targets(64, 1.0);
  const auto save = [&](const char* name) {
    test::save_hdf5(folder.path(name),
                    {test::counted("x", f32, {64, 4}), test::of_values("y", f32, {64}, targets)});
  };
  save("good.h5");
  targets[3] = 2.0;
  save("a.h5");
  targets = std::vector<double>(64, 0.0);
  targets[62] = targets[63] = -0.5;
  save("b.h5");
  test::write_file(folder.path("deck.toml"), vectors_deck("loss = \"binary\"\noutputs = 1\n"));
  std::string first;
  for (const int ranks : {1, 3}) {
    const test::Result result =
        test::flotilla(ranks, {"train", folder.path("deck.toml"), "run.output=" + folder.path("run"),
                               "data.train.path=" + folder.path("?.h5"), "train.global_batch_size=12"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(test::count(result.errors, "data.train: 3 mistakes:"), 1) << result.errors;
    for (const char* text :
         {"a.h5', y: the target of sample 3 is 2, and model.loss = \"binary\"",
          "b.h5', y: the target of sample 62 is -0.5", "b.h5', y: the target of sample 63 is"})
      EXPECT_EQ(test::count(result.errors, text), 1) << text << "\n" << result.errors;
    EXPECT_FALSE(std::filesystem::exists(folder.path("run/checkpoints")));
    const std::string told = result.errors.substr(0, result.errors.find("---"));  // the launcher's follow
    if (ranks == 1) first = told;
    EXPECT_EQ(told, first);
  }

  std::vector<std::string> good = {"train", folder.path("deck.toml"), "run.output=" + folder.path("run"),
                                   "data.train.path=" + folder.path("good.h5")};
  EXPECT_EQ(test::flotilla(1, good).exit_code, 0);
  const test::Result evaluated =
      test::flotilla(2, {"evaluate", folder.path("run"), "data.validation.path=" + folder.path("b.h5")});
  EXPECT_EQ(evaluated.exit_code, 2);
  EXPECT_EQ(test::count(evaluated.errors, "data.validation: 2 mistakes:"), 1) << evaluated.errors;
}

TEST_F(RunsOnArrays, AFolderOfCifarIsTrainingAndValidation) {
  const auto records = [](std::size_t count) {
    test::Bytes bytes(count * 3073);
    for (std::size_t k = 0; k < bytes.size(); ++k)
      bytes[k] = static_cast<std::uint8_t>(k % 3073 == 0 ? k / 3073 % 10 : k % 255);
    return bytes;
  };
  test::save(folder.path("data_batch_1.bin"), records(40));
  test::save(folder.path("data_batch_2.bin"), records(24));
  test::save(folder.path("test_batch.bin"), records(17));
  const std::string cifar = "data.train.path=" + folder.path();
  const test::Result trained = test::flotilla(
      2, {"train", test::source_path("inputs/mnist_mlp.toml"), "run.output=" + folder.path("run"),
          "data.kind=cifar", cifar, "data.validation.path=" + folder.path(), "model.widths=[]",
          "train.epochs=1", "train.global_batch_size=16", "device.threads=1"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_EQ(test::last_metrics(folder.path("run"), "step")["step"], 4);  // of 64 samples
  EXPECT_EQ(test::last_metrics(folder.path("run"), "validation")["samples"], 17);

  // Evaluation and export work with a folder that holds only the test set.
  std::filesystem::create_directory(folder.path("held-out"));
  std::filesystem::rename(folder.path("test_batch.bin"), folder.path("held-out/test_batch.bin"));
  const std::string held_out = "data.validation.path=" + folder.path("held-out");
  const test::Result evaluated = test::flotilla(1, {"evaluate", folder.path("run"), held_out});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.errors;
  EXPECT_NE(evaluated.output.find("17 samples"), std::string::npos) << evaluated.output;
}

TEST_F(RunsOnArrays, CutMixOfRowsIsAMistakeOfTheDeck) {
  test::save_hdf5(folder.path("a.h5"), {test::counted("x", {NumberType::Kind::f32}, {64, 4}),
                                        test::of_values("y", {}, {64}, std::vector<double>(64))});
  test::write_file(folder.path("deck.toml"), vectors_deck("classes = 2\n") + "[run]\noutput = \"run\"\n");
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--check"}}) {
    std::vector<std::string> command = {"train", folder.path("deck.toml"),
                                        "data.train.path=" + folder.path("a.h5"), "train.cutmix=1",
                                        "run.output=" + folder.path("run")};
    command.insert(command.end(), more.begin(), more.end());
    test::expect_told(
        test::flotilla(2, command),
        "command line: train.cutmix=1: train.cutmix exchanges parts of images, but a sample is 4 ");
  }
}

/// Samples (4,4) of bytes or of the same numbers in another type, and labels of two classes, in one file.
class PartsOfArrays : public ::testing::Test {
 protected:
  PartsOfArrays() {
    test::write_file(folder.path("deck.toml"),
                     "[model]\nwidths = []\nclasses = 2\n[data]\nkind = \"hdf5\"\ninputs = \"x\"\ntargets = "
                     "\"y\"\ninput_mean = [0.25]\ninput_std = [0.5]\n[train]\nepochs = 1\nbatch_size = 8\n"
                     "[schedule]\nlearning_rate = 0.1\n[device]\nthreads = 1\n");
  }
  static test::StoredArray inputs(const std::string& name, std::int64_t samples, int start,
                                  NumberType type = {}) {
    std::vector<double> values;
    for (std::int64_t k = 0; k < 16 * samples; ++k) values.push_back(test::counted_value({}, k, start));
    return test::of_values(name, type, {samples, 4, 4}, values);
  }
  static test::StoredArray targets(const std::string& name, std::int64_t samples) {
    std::vector<double> values;
    for (std::int64_t k = 0; k < samples; ++k) values.push_back(static_cast<double>(k % 2));
    return test::of_values(name, {}, {samples}, values);
  }
  void save(const char* name, int start, NumberType type = {}) const {
    test::save_hdf5(folder.path(name), {inputs("x", 32, start, type), targets("y", 32)});
  }
  static test::Result run(std::vector<std::string> arguments) {  // without a launcher
    arguments.insert(arguments.begin(), FLOTILLA_EXECUTABLE);
    return test::run(arguments);
  }
  test::Result train(const std::string& output, std::vector<std::string> keys) const {
    keys.insert(keys.begin(), {"train", folder.path("deck.toml"), "run.output=" + folder.path(output)});
    return run(keys);
  }
  std::string key(const std::string& name, const std::string& file) const {
    return name + "=" + folder.path(file);
  }

  test::TemporaryFolder folder;
};

TEST_F(PartsOfArrays, LieInOneFile) {
  const std::vector<test::StoredArray> arrays = {inputs("x_train", 32, 0), targets("y_train", 32),
                                                 inputs("x_test", 24, 5), targets("y_test", 24)};
  test::save_hdf5(folder.path("a.h5"), arrays);
  test::save(folder.path("a.npz"), test::npz(arrays, {.deflated = true}));
  std::filesystem::create_directory(folder.path("npy"));
  for (const test::StoredArray& array : arrays)
    test::save(folder.path("npy/" + array.name + ".npy"), test::npy(array));
  std::vector<nlohmann::json> losses;
  for (const auto& [kind, path] :
       {std::pair("hdf5", "a.h5"), std::pair("numpy", "a.npz"), std::pair("numpy", "npy")}) {
    const test::Result result =
        train(std::string("run-") + path,
              {std::string("data.kind=") + kind, key("data.train.path", path),
               key("data.validation.path", path), "data.train.inputs=x_train", "data.train.targets=y_train",
               "data.validation.inputs=x_test", "data.validation.targets=y_test"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(test::count(result.output, "hold the same samples"), 0) << result.output;
    losses.push_back(test::last_metrics(folder.path(std::string("run-") + path), "validation"));
    EXPECT_EQ(losses.back()["samples"], 24);
    EXPECT_EQ(losses.back()["loss"], losses.front()["loss"]);
  }
  const test::Result missing = run({"evaluate", folder.path("run-a.h5"), "data.validation.inputs=x"});
  EXPECT_NE(missing.errors.find("has no array \"x\" (data.validation.inputs): it holds x_test"),
            std::string::npos)
      << missing.errors;
  const test::Result predicted = run({"predict", folder.path("run-a.h5"), folder.path("a.h5")});
  EXPECT_EQ(test::count(predicted.output, "\n"), 25) << predicted.errors;
}

TEST_F(PartsOfArrays, WithTheSameSamplesAreWarnedOf) {
  save("a.h5", 0);
  save("b.h5", 0);
  save("c.h5", 1);
  for (const auto& [validation, warnings] :
       {std::pair("a.h5", 1), std::pair("b.h5", 1), std::pair("c.h5", 0)}) {
    const test::Result checked =
        train("never", {key("data.train.path", "a.h5"), key("data.validation.path", validation), "--check"});
    EXPECT_EQ(checked.exit_code, 0) << checked.errors;
    EXPECT_EQ(test::count(checked.output, "warning: data.train and data.validation hold the same samples"),
              warnings)
        << checked.output;
  }
  const test::Result trained =
      train("run", {key("data.train.path", "a.h5"), key("data.validation.path", "b.h5")});
  EXPECT_EQ(test::count(trained.output + trained.errors, "hold the same samples"), 1) << trained.output;
  const test::Result evaluated = run({"evaluate", folder.path("run")});
  EXPECT_EQ(test::count(evaluated.output, "the samples that the model was trained on"), 1)
      << evaluated.output;
}

TEST_F(PartsOfArrays, OfOtherNumberTypesAreRefusedUnlessTheyAreScaledAlike) {
  save("bytes.h5", 0);
  save("others.h5", 3);
  save("floats.h5", 3, {NumberType::Kind::f32});
  test::expect_told(
      train("never", {key("data.train.path", "bytes.h5"), key("data.validation.path", "floats.h5")}),
      "the model sees (x - 63.75) / 127.5 of a number x of uint8, and of those of data.validation, "
      "float32, it would see (x - 0.25) / 0.5: convert them to uint8");
  const test::Result trained =
      train("run", {key("data.train.path", "bytes.h5"), key("data.validation.path", "others.h5")});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;

  const std::string trained_run = folder.path("run");
  const std::vector<std::string> same = {"data.input_mean=[63.75]", "data.input_std=[127.5]"};
  test::expect_told(run({"evaluate", trained_run, key("data.validation.path", "floats.h5")}),
                    "data.input_mean and data.input_std these values");
  const test::Result predicted = run({"predict", trained_run, folder.path("floats.h5")});
  EXPECT_EQ(predicted.exit_code, 2);
  EXPECT_EQ(test::count(predicted.errors, "convert them to uint8"), 1) << predicted.errors;
  test::expect_told(run({"evaluate", trained_run, "data.input_std=[0.25]"}),
                    "scale them by the keys of the model's deck");
  const test::Result bytes = run({"evaluate", trained_run});
  const test::Result floats =
      run({"evaluate", trained_run, key("data.validation.path", "floats.h5"), same[0], same[1]});
  EXPECT_EQ(floats.exit_code, 0) << floats.errors;
  EXPECT_EQ(test::count(floats.output, "are float32, those of training are uint8"), 1) << floats.output;
  const auto results = [](const test::Result& result) {
    return result.output.substr(std::min(result.output.find("samples     "), result.output.size()));
  };
  EXPECT_EQ(results(floats), results(bytes)) << "to five digits";

  save("floats.h5", 0, {NumberType::Kind::f32});
  const std::string other = key("data.train.path", "floats.h5");
  test::expect_told(train("run", {other, key("data.validation.path", "floats.h5"), "train.epochs=2",
                                  R"(run.resume_with=["data.train", "data.validation"])"}),
                    "convert them to uint8");
  const test::Result tuned = train("tuned", {other, "model.initial_weights=" + trained_run});
  EXPECT_EQ(test::count(tuned.output + tuned.errors, "model.initial_weights: the model sees (x - 63.75)"), 1)
      << tuned.output << tuned.errors;
}

}  // namespace
}  // namespace flotilla
