// SPDX-License-Identifier: Apache-2.0
// `flotilla export RUN model.onnx`: what it takes from the checkpoint, its deck and its data.
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/commands/export.hpp"
#include "src/config/deck.hpp"
#include "src/data/dataset.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/data/arrays/array_files.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/onnx/evaluate_onnx.hpp"
#include "tests/onnx/onnx_faults.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

void ignore(const std::string&) {}

ExportArguments with(bool ExportArguments::*flag) {
  ExportArguments arguments;
  arguments.*flag = true;
  return arguments;
}

constexpr const char* digits_deck = R"(
[model]
kind = "layers"
layers = ["conv 2 3 no_bias", "batch_norm", "relu", "linear 3"]
classes = 3
[data]
kind = "idx"
mean = 0.25
std = 0.5
[train]
epochs = 1
global_batch_size = 4
[schedule]
learning_rate = 0.1
)";

constexpr const char* clicks_deck = R"(
[model]
kind = "ctr-dnn"
widths = [3]
embedding_width = 4
[data]
kind = "libsvm"
[data.train]
path = "clicks.txt"
[train]
epochs = 1
global_batch_size = 4
[schedule]
learning_rate = 0.1
[strategy]
kind = "parameter-server"
[roles]
kind = "symmetric"
)";

/// A folder with images of 4 x 5 pixels and a checkpoint of the network of digits_deck, averages included.
class ExportOnnx : public testing::Test {
 protected:
  ExportOnnx() {
    test::save(folder_.path("images"), test::images(4, 4, 5));
    test::save(folder_.path("labels"), test::labels(4, 3));
    snapshot_.state.deck = std::string(digits_deck) + "[data.train]\nimages = \"" + folder_.path("images") +
                           "\"\nlabels = \"" + folder_.path("labels") + "\"\n";
    snapshot_.state.step = 12;
    snapshot_.state.choices["data.class_names"] = R"(["cat","dog","ship"])";
    for (const std::string group : {"", "strategy/average_"}) {
      const float value = group.empty() ? 0.5F : 0.25F;
      add_tensor(snapshot_, group + "parameters/0.weight", {2, 1, 3, 3}, value);
      for (const char* name : {"parameters/1.weight", "parameters/1.bias"})
        add_tensor(snapshot_, group + name, {2}, value);
      for (const char* name : {"statistics/1.running_mean", "statistics/1.running_var"})
        add_tensor(snapshot_, group + name, {2}, value);
      add_tensor(snapshot_, group + "parameters/3.weight", {3, 12}, value);
      add_tensor(snapshot_, group + "parameters/3.bias", {3}, value);
      for (const CheckpointTensor& tensor : snapshot_.tensors)
        if (tensor.path.starts_with(group)) std::ranges::fill(snapshot_.of(tensor), value);
    }
  }

  onnx::ModelProto exported(ExportArguments arguments) {
    write_checkpoint_file(folder_.path("a.h5"), snapshot_);
    arguments.checkpoint = folder_.path("a.h5");
    arguments.output = folder_.path("model.onnx");
    EXPECT_EQ(export_checkpoint(arguments, ignore), arguments.checkpoint);
    const onnx::ModelProto model = test::read_onnx(arguments.output);
    EXPECT_EQ(test::onnx_faults(model), "");
    return model;
  }

  std::string refusal(ExportArguments arguments, const std::string& output) {
    write_checkpoint_file(folder_.path("a.h5"), snapshot_);
    arguments.checkpoint = folder_.path("a.h5");
    arguments.output = folder_.path(output);
    return error_of([&] { export_checkpoint(arguments, ignore); });
  }

  test::TemporaryFolder folder_;
  Snapshot snapshot_;
};

/// "input 1(N,1,4,5)": name, type and axes after the batch axis.
std::string text_of(const onnx::ValueInfoProto& value) {
  const auto& type = value.type().tensor_type();
  std::string text =
      value.name() + " " + std::to_string(type.elem_type()) + "(" + type.shape().dim(0).dim_param();
  for (int axis = 1; axis < type.shape().dim_size(); ++axis)
    text += "," + std::to_string(type.shape().dim(axis).dim_value());
  return text + ")";
}

TEST_F(ExportOnnx, TakesTheShapeFromTheDataAndTheNamesFromTheCheckpoint) {
  const onnx::ModelProto model = exported({});
  EXPECT_EQ(text_of(model.graph().input(0)), "input 1(N,1,4,5)");
  EXPECT_EQ(text_of(model.graph().output(0)), "logits 1(N,3)");
  std::map<std::string, std::string> metadata;
  for (const auto& entry : model.metadata_props()) metadata[entry.key()] = entry.value();
  EXPECT_EQ(
      metadata,
      (std::map<std::string, std::string>{
          {"labels", R"(["cat","dog","ship"])"}, {"mean", "[0.25]"}, {"std", "[0.5]"}, {"step", "12"}}));
}

TEST_F(ExportOnnx, NeedsNoDataWhereTheCheckpointKeepsTheFormOfTheInputs) {
  const onnx::ModelProto from_data = exported(with(&ExportArguments::with_preprocessing));
  snapshot_.state.choices["model.inputs"] = "uint8 1x4x5, (x - 63.75) / 127.5";
  for (const char* name : {"images", "labels"}) std::filesystem::remove(folder_.path(name));
  EXPECT_EQ(exported(with(&ExportArguments::with_preprocessing)).SerializeAsString(),
            from_data.SerializeAsString());
  EXPECT_EQ(text_of(exported({}).graph().input(0)), "input 1(N,1,4,5)");
}

TEST_F(ExportOnnx, ReadsHeadersOnly) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TMPDIR", folder_.path("missing").c_str(), 1);
  test::save(folder_.path("images"), test::gzip(test::images(4, 4, 5)));
  EXPECT_EQ(text_of(exported({}).graph().input(0)), "input 1(N,1,4,5)");

  test::save(folder_.path("a.npz"), test::npz({test::counted("images", {}, {4, 4, 5})}, {.deflated = true}));
  const std::string deck = digits_deck;
  snapshot_.state.deck = std::string(deck).replace(deck.find("idx"), 3, "numpy") + "[data.train]\npath = \"" +
                         folder_.path("a.npz") + "\"\n";
  EXPECT_EQ(text_of(exported({}).graph().input(0)), "input 1(N,1,4,5)");
  before == nullptr ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
}

TEST_F(ExportOnnx, ScalesBytesAsTheDeckSays) {
  const onnx::ModelProto model = exported(with(&ExportArguments::with_preprocessing));
  EXPECT_EQ(text_of(model.graph().input(0)), "input 2(N,4,5,1)");
  EXPECT_EQ(text_of(model.graph().output(0)), "probabilities 1(N,3)");
  std::map<std::string, float> scaling;
  for (const onnx::TensorProto& tensor : model.graph().initializer())
    if (tensor.name().starts_with("pixel_"))
      std::memcpy(&scaling[tensor.name()], tensor.raw_data().data(), sizeof(float));
  EXPECT_TRUE(test::within_float_roundings(scaling["pixel_factor"], 1.0F / (255.0F * 0.5F), 4));
  EXPECT_TRUE(test::within_float_roundings(scaling["pixel_offset"], -0.25F / 0.5F, 4));
}

TEST_F(ExportOnnx, TakesTheAverageOnRequest) {
  const test::OnnxValues input{.shape = {1, 1, 4, 5}, .values = std::vector<float>(20, 1.0F)};
  const auto logit = [&](float w) {
    const float normed = (9 * w - w) / std::sqrt(w + 1e-5F) * w + w;
    return 12 * normed * w + w;
  };
  EXPECT_TRUE(test::within(test::evaluate(exported({}), input).values[2], logit(0.5F), 1e-4));
  EXPECT_TRUE(test::within(test::evaluate(exported(with(&ExportArguments::average)), input).values[2],
                           logit(0.25F), 1e-4));
}

TEST_F(ExportOnnx, KeepsBatchNormsOnRequest) {
  EXPECT_EQ(exported({}).graph().node(1).op_type(), "Relu");
  EXPECT_EQ(exported(with(&ExportArguments::keep_batch_norm)).graph().node(1).op_type(),
            "BatchNormalization");
}

TEST_F(ExportOnnx, OfAClickModelTakesFeaturesAndGivesTwoClasses) {
  snapshot_ = {};
  snapshot_.state.deck = clicks_deck;
  for (const auto& [name, shape] : std::map<std::string, Shape>{
           {"fc1.weight", {3, 4}}, {"fc1.bias", {3}}, {"fc2.weight", {2, 3}}, {"fc2.bias", {2}}})
    add_tensor(snapshot_, "parameters/" + name, shape, 0.5F);

  const onnx::ModelProto model = exported({});
  EXPECT_EQ(text_of(model.graph().input(0)), "input 1(N,4)");
  EXPECT_EQ(text_of(model.graph().output(0)), "logits 1(N,2)");
  EXPECT_TRUE(mentions(refusal(with(&ExportArguments::with_preprocessing), "model.onnx"),
                       {"--with-preprocessing is for images", "\"libsvm\": leave it out"}));
}

/// The scaling in an exported file: "[0.5] [0.5]"; empty: nothing.
std::string scale_of(const onnx::ModelProto& model) {
  std::string text;
  for (const char* key : {"mean", "std"})
    for (const auto& entry : model.metadata_props())
      if (entry.key() == key) text += (text.empty() ? "" : " ") + entry.value();
  return text;
}

class ExportOnnxOfArrays : public ExportOnnx {
 protected:
  /// A linear network for 2 images of `type`; @param keys of [data]
  void make(const NumberType& type, const std::string& keys) {
    test::save_hdf5(folder_.path("data.h5"), {test::counted("images", type, {2, 3, 4, 5}),
                                              test::of_values("labels", {}, {2}, {0, 1})});
    snapshot_ = {};
    snapshot_.state.deck =
        "[model]\nkind = \"layers\"\nlayers = [\"linear 3\"]\nclasses = 3\n[data]\nkind = \"hdf5\"\n" + keys +
        "[data.train]\npath = \"" + folder_.path("data.h5") +
        "\"\n[train]\nepochs = 1\nglobal_batch_size = 2\n[schedule]\nlearning_rate = 0.1\n";
    add_tensor(snapshot_, "parameters/0.weight", {3, 60}, 0.0F);
    add_tensor(snapshot_, "parameters/0.bias", {3}, 0.25F);
    for (std::size_t k = 0; k < 180; ++k)
      snapshot_.of(snapshot_.tensors[0])[k] = static_cast<float>(k * 29 % 41) / 40.0F - 0.5F;
  }
};

TEST_F(ExportOnnxOfArrays, TellsTheScalingThatTheDeckGivesInPart) {
  const NumberType f32{NumberType::Kind::f32};
  for (const auto& [keys, expected] :
       {std::pair("", ""), std::pair("input_mean = [0.5]\n", "[0.5] [1]"),
        std::pair("input_std = [0.5, 2.0, 4.0]\n", "[0, 0, 0] [0.5, 2, 4]"),
        std::pair("input_mean = [1.0, 2.0, 3.0]\ninput_std = [0.5]\n", "[1, 2, 3] [0.5]")}) {
    make(f32, keys);
    EXPECT_EQ(scale_of(exported({})), expected) << keys;
  }
  for (const auto& [keys, expected] :
       {std::pair("", "[0.5] [0.5]"), std::pair("std = 0.25\n", "[0.5] [0.25]"),
        std::pair("input_mean = [0.5, 0.25, 0.125]\n", "[0.5, 0.25, 0.125] [1, 1, 1]")}) {
    make({}, keys);
    EXPECT_EQ(scale_of(exported({})), expected) << keys;
  }
}

TEST_F(ExportOnnxOfArrays, ComputesOfBytesWhatTrainingComputes) {
  for (const std::string keys :
       {"", "mean = 0.25\n", "input_std = [0.5, 0.25, 0.125]\n", "input_mean = [0.5, 0.25, 0.125]\n"}) {
    make({}, keys);
    const Config config = read_saved_deck(snapshot_.state.deck);
    const auto data = open_dataset(config.data, config.data.train, 3, 1);
    test::OnnxValues scaled{.shape = {2, 3, 4, 5}, .values = std::vector<float>(120)};
    test::OnnxValues bytes{.shape = {2, 4, 5, 3}, .values = {}};
    for (std::int64_t n = 0; n < 2; ++n) {
      data->read(n, 0, std::span(scaled.values).subspan(static_cast<std::size_t>(n) * 60, 60));
      std::vector<std::uint8_t> image(60);
      data->read_bytes(n, 0, image);
      bytes.values.insert(bytes.values.end(), image.begin(), image.end());
    }
    const std::vector<float> logits = test::evaluate(exported({}), scaled).values;
    const std::vector<float> found =
        test::evaluate(exported(with(&ExportArguments::with_preprocessing)), bytes).values;
    ASSERT_EQ(found.size(), logits.size());
    for (std::size_t k = 0; k < logits.size(); ++k) {
      double sum = 0.0;
      for (std::size_t c = k / 3 * 3; c < k / 3 * 3 + 3; ++c)
        sum += std::exp(double{logits[c]} - double{logits[k]});
      EXPECT_TRUE(test::within(found[k], 1.0 / sum, 1e-5)) << keys << k;
    }
  }
}

TEST_F(ExportOnnx, RefusesWhatIsOfOnnxAloneForOtherFiles) {
  EXPECT_EQ(refusal(with(&ExportArguments::keep_batch_norm), "model.h5"),
            "--keep-batch-norm is of ONNX models: give an output that ends in .onnx, got " +
                folder_.path("model.h5"));
  EXPECT_EQ(refusal(with(&ExportArguments::with_preprocessing), "model.h5"),
            "--with-preprocessing is of ONNX models: give an output that ends in .onnx, got " +
                folder_.path("model.h5"));
}

TEST_F(ExportOnnx, SaysWhichFileOfImagesIsMissing) {
  std::filesystem::remove(folder_.path("images"));
  EXPECT_TRUE(mentions(refusal({}, "model.onnx"), {folder_.path("images")}));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("model.onnx")));
}

}  // namespace
}  // namespace flotilla
