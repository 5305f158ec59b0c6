// SPDX-License-Identifier: Apache-2.0
// What an exported file computes, by the loops of evaluate_onnx, is what the network computes on the CPU.
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/config/layer_texts.hpp"
#include "src/onnx/model_graph.hpp"
#include "src/train/model_kinds.hpp"
#include "src/train/model_state.hpp"
#include "tests/onnx/evaluate_onnx.hpp"
#include "tests/onnx/onnx_faults.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

constexpr std::int64_t batch = 3;

/// A network for inference with random values in all of its tensors.
class Applied {
 public:
  Applied(const Config& config, const Shape& sample, std::int64_t slots)
      : device_(make_device({.kind = "cpu", .threads = 1})),
        network_(
            make_network(*device_, config,
                         {.sample = sample, .slots = slots, .batch = batch, .purpose = Purpose::inference})),
        parameters_(arena_of(network_->parameters())),
        statistics_(arena_of(network_->statistics())),
        sums_(device_->memory().allocate(loss_sums)) {
    const std::vector<StateArray> arrays = state_arrays({parameters_.span(), statistics_.span()}, nullptr);
    weights_.tensors = checkpoint_tensors(*network_, arrays);
    for (const CheckpointTensor& tensor : weights_.tensors) fill(tensor);
    auto tensor = weights_.tensors.begin();
    for (const StateGroup& group : state_groups(*network_, arrays))
      for (std::size_t slice = 0; slice < group.tensors.layout().slices().size(); ++slice, ++tensor)
        group.tensors.import_slice(device_->memory(), slice, std::as_const(weights_).of(*tensor),
                                   group.values);
    network_->bind({.parameters = parameters_.span(),
                    .gradients = {},
                    .statistics = statistics_.span(),
                    .step_statistics = {}});
  }

  const Snapshot& weights() const { return weights_; }

  std::vector<float> logits(std::span<float> samples) {
    const std::vector<std::int32_t> labels(batch, 0);
    const std::vector<float> targets(
        static_cast<std::size_t>(network_->layers().back()->output_shape().size()));
    network_->forward(samples, {.labels = labels, .valid = batch, .values = targets}, Pass::inference,
                      sums_.span());
    std::vector<float> rows(static_cast<std::size_t>(network_->logits().shape().size()));
    device_->tensors().download(network_->logits(), rows);
    return rows;
  }

 private:
  Storage arena_of(const TensorSet& tensors) {
    return device_->memory().allocate(static_cast<std::size_t>(tensors.layout().size()));
  }

  /// Weights as after training: activations keep their size, variances are positive, nothing is 0 or 1.
  void fill(const CheckpointTensor& tensor) {
    const std::int64_t size = tensor.shape.size();
    const bool matrix = tensor.shape.rank() > 1;
    const double scale = matrix ? 1.4 / std::sqrt(static_cast<double>(size / tensor.shape[0])) : 0.2;
    const bool near_one = tensor.path.ends_with("var") || (!matrix && tensor.path.ends_with("weight"));
    for (std::int64_t i = 0; i < size; ++i)
      weights_.values.push_back(
          static_cast<float>(near_one ? 0.6 + 0.5 * random_.uniform() : scale * random_.normal()));
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Network> network_;
  Storage parameters_, statistics_, sums_;
  Random random_{11, random_data};
  Snapshot weights_;
};

struct Case {
  const char* name;
  ModelConfig model;
  Shape sample;
  std::int64_t slots = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& of) {
  return out << of.name;
}

ModelConfig model_of(const std::string& kind) {
  ModelConfig model;
  model.kind = kind;
  model.classes = kind == "ctr-dnn" ? 2 : 5;
  return model;
}

Config config_of(const ModelConfig& model) {
  Config config;
  config.model = model;
  return config;
}

ModelConfig mlp(const std::string& kind, Activation activation) {
  ModelConfig model = model_of(kind);
  model.widths = {24, 16};
  model.activation = activation;
  return model;
}

ModelConfig resnet(std::int64_t depth) {
  ModelConfig model = model_of("resnet");
  model.depth = depth;
  model.dropout = 0.3;
  return model;
}

ModelConfig layers(std::vector<std::string> texts) {
  ModelConfig model = model_of("layers");
  model.layers = std::move(texts);
  return model;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"Tanh", mlp("mlp", Activation::tanh), {1, 4, 5}},
      {"Gelu", mlp("mlp", Activation::gelu), {20}},
      {"Silu", mlp("mlp", Activation::silu), {20}},
      {"Clicks", mlp("ctr-dnn", Activation::relu), {13}, 4},
      {"Resnet18", resnet(18), {3, 40, 32}},
      {"Resnet50", resnet(50), {3, 32, 32}},
      {"Convolutions",
       layers({"conv 16 3 padding 1", "batch_norm", "tanh", "max_pool 3 stride 2 padding 1", "batch_norm",
               "conv 6 3 stride 2 no_bias", "sigmoid", "average_pool 3 stride 1 padding 1", "flatten", "gelu",
               "linear 7", "batch_norm", "silu", "dropout 0.3", "linear 5"}),
       {1, 14, 12}},
      {"Residuals",
       layers({"conv 8 3 padding 1", "residual", "conv 8 3 padding 1 no_bias", "batch_norm", "relu",
               "conv 8 3 padding 1", "end", "relu", "residual projection", "conv 12 3 stride 2 padding 1",
               "batch_norm", "end", "global_average_pool", "residual", "linear 12", "layer_norm", "end",
               "linear 5"}),
       {3, 9, 8}},
      {"Averaged", layers({"conv 5 3", "relu", "global_average_pool"}), {1, 6, 6}},
      {"Plane", layers({"conv 4 3", "relu", "flatten", "linear 5"}), {6, 7}},
      {"Rows", layers({"linear 9", "relu", "batch_norm", "linear 5"}), {6}},
  };
  return all;
}

/// The largest difference, in parts of the spread of the values that are expected.
double difference(const std::vector<float>& found, const std::vector<float>& expected) {
  if (found.size() != expected.size()) return 1e30;
  const auto [least, most] = std::minmax_element(expected.begin(), expected.end());
  float largest = 0.0F;
  for (std::size_t i = 0; i < found.size(); ++i)
    largest = std::max(largest, std::abs(found[i] - expected[i]));
  return static_cast<double>(largest) / static_cast<double>(*most - *least);
}

onnx::ModelProto written(const OnnxGraph& graph) {
  const test::TemporaryFolder folder;
  write_onnx(folder.path("model.onnx"), graph, "test");
  return test::read_onnx(folder.path("model.onnx"));
}

std::int64_t nodes(const onnx::ModelProto& model, const std::string& operation) {
  return std::ranges::count(model.graph().node(), operation, &onnx::NodeProto::op_type);
}

class OnnxModel : public testing::TestWithParam<Case> {
 protected:
  OnnxModel()
      : config_(config_of(GetParam().model)),
        embeddings_(GetParam().slots * config_.model.embedding_width),
        applied_(config_, GetParam().sample, GetParam().slots) {}

  Config config_;
  std::int64_t embeddings_;
  Applied applied_;
};

TEST_P(OnnxModel, GivesTheLogitsOfTheNetworkWithAndWithoutFoldedBatchNorms) {
  const Shape& sample = GetParam().sample;
  const std::int64_t values = sample.size() + embeddings_;
  std::vector<float> samples(static_cast<std::size_t>(batch * values));
  Random random(5, random_data);
  for (float& value : samples) value = static_cast<float>(random.normal());
  const std::vector<float> expected = applied_.logits(samples);
  test::OnnxValues input{.shape = {batch, values}, .values = samples};
  const bool rows = config_.model.kind == "mlp" || config_.model.has_embeddings();
  if (!rows) {
    input.shape = {batch};
    const Shape taken = layer_input(sample);
    for (int axis = 0; axis < taken.rank(); ++axis) input.shape.push_back(taken[axis]);
  }

  for (const bool keep : {false, true}) {
    const onnx::ModelProto model =
        written(make_onnx_graph(config_, applied_.weights(), {.sample = sample, .keep_batch_norm = keep}));
    EXPECT_EQ(test::onnx_faults(model), "");
    EXPECT_TRUE(test::within(difference(test::evaluate(model, input).values, expected), 0.0, 1e-5))
        << "kept: " << keep;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxModel, testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

class OnnxModelOfImages : public OnnxModel {};

TEST_P(OnnxModelOfImages, TakesBytesAndGivesProbabilities) {
  const Shape& sample = GetParam().sample;
  const ByteScaling scaling{.factor = {0.02F, 0.03F, 0.025F}, .offset = {-2.0F, -3.1F, -2.9F}};
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(batch * sample.size()));
  Random random(6, random_data);
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(random.below(256));
  std::vector<float> scaled;
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t c = 0; c < sample[0]; ++c)
      for (std::int64_t i = 0; i < sample[1] * sample[2]; ++i) {
        const std::int64_t at = (n * sample[1] * sample[2] + i) * sample[0] + c;
        const auto channel = static_cast<std::size_t>(c);
        scaled.push_back(scaling.factor[channel] * static_cast<float>(pixels[static_cast<std::size_t>(at)]) +
                         scaling.offset[channel]);
      }
  std::vector<float> expected = applied_.logits(scaled);
  for (auto row = expected.begin(); row != expected.end(); row += config_.model.classes) {
    double sum = 0.0;
    const auto end = row + config_.model.classes;
    std::for_each(row, end, [&](float value) { sum += std::exp(double{value}); });
    std::transform(row, end, row, [&](float z) { return static_cast<float>(std::exp(double{z}) / sum); });
  }

  const onnx::ModelProto model =
      written(make_onnx_graph(config_, applied_.weights(), {.sample = sample, .preprocessing = scaling}));
  const test::OnnxValues found = test::evaluate(
      model, {.shape = {batch, sample[1], sample[2], sample[0]}, .values = {pixels.begin(), pixels.end()}});

  EXPECT_EQ(test::onnx_faults(model), "");
  EXPECT_EQ(model.graph().output(0).name(), "probabilities");
  EXPECT_TRUE(test::within(difference(found.values, expected), 0.0, 1e-5));
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxModelOfImages, testing::Values(cases()[0], cases()[6], cases()[7]),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(OnnxModels, HaveBatchNormsOnlyWhereTheyCannotBeFoldedOrAreKept) {
  const Config config = config_of(cases()[6].model);
  const Shape sample = cases()[6].sample;
  const Applied applied(config, sample, 0);

  const OnnxForm folded{.sample = sample};
  const OnnxForm kept{.sample = sample, .keep_batch_norm = true};
  EXPECT_EQ(nodes(written(make_onnx_graph(config, applied.weights(), folded)), "BatchNormalization"), 1);
  EXPECT_EQ(nodes(written(make_onnx_graph(config, applied.weights(), kept)), "BatchNormalization"), 3);
}

std::string refusal(const Config& config, const Snapshot& weights) {
  try {
    make_onnx_graph(config, weights, {.sample = {20}});
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(OnnxModels, AreRefusedWhereTheWeightsAreOfAnotherModel) {
  Config config = config_of(cases()[1].model);
  const Applied applied(config, {20}, 0);

  config.model.widths = {24};
  EXPECT_EQ(
      refusal(config, applied.weights()),
      "the checkpoint has parameters/fc3.bias, which the model of its deck does not: export it from the "
      "run that wrote it");
  config.model.widths = {24, 16, 8};
  EXPECT_EQ(refusal(config, applied.weights()),
            "the checkpoint has no parameters/fc4.weight, which the model of its deck needs: export it from "
            "the run that wrote it");
  config.model.kind = "mine";
  EXPECT_EQ(
      refusal(config, applied.weights()),
      "model.kind = \"mine\" is a model of a program's own, which has no form in ONNX: export to a file "
      "that ends in .h5");
}

/// A network of 6 inputs and two outputs, and what its exported file gives for `samples`.
struct NumbersCase {
  explicit NumbersCase(ModelLoss loss) {
    config.model.widths = {9};
    config.model.loss = loss;
    config.model.outputs = 2;
  }
  test::OnnxValues exported(const Applied& applied, const std::string& name) const {
    const onnx::ModelProto model = written(make_onnx_graph(config, applied.weights(), form));
    EXPECT_EQ(test::onnx_faults(model), "");
    EXPECT_EQ(model.graph().output(0).name(), name);
    return test::evaluate(model, {.shape = {batch, 6}, .values = samples});
  }

  Config config;
  OnnxForm form{};
  std::vector<float> samples = {1, -2, 0.5F, 3, 0, 1, 2, 2, -1, 0.25F, -0.5F, 1, 0, 0, 0, 1, -1, 3};
};

TEST(OnnxModelOfNumbers, GivesOutputsInUnitsOfTheData) {
  NumbersCase of(ModelLoss::huber);
  of.config.data.target_mean = {100.0, -5.0};
  of.config.data.target_std = {20.0};
  Applied applied(of.config, {6}, 0);
  std::vector<float> expected = applied.logits(of.samples);
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = 20.0F * expected[i] + (i % 2 == 0 ? 100.0F : -5.0F);

  EXPECT_TRUE(test::within(difference(of.exported(applied, "outputs").values, expected), 0.0, 1e-6));
}

TEST(OnnxModelOfNumbers, ScalesInputsOnRequest) {
  NumbersCase of(ModelLoss::mse);
  of.form.mean = {1, 2, 3, 4, 5, 6};
  of.form.deviation = {4};
  Applied applied(of.config, {6}, 0);
  std::vector<float> scaled = of.samples;
  for (std::size_t i = 0; i < scaled.size(); ++i)
    scaled[i] = (scaled[i] - static_cast<float>(i % 6 + 1)) / 4.0F;

  EXPECT_TRUE(
      test::within(difference(of.exported(applied, "outputs").values, applied.logits(scaled)), 0.0, 1e-6));
}

TEST(OnnxModelOfNumbers, LeavesOutputsWithoutUnitsAndLogitsAsTheyAre) {
  for (const auto& [loss, name] :
       {std::pair(ModelLoss::mse, "outputs"), std::pair(ModelLoss::binary, "logits")}) {
    NumbersCase of(loss);
    Applied applied(of.config, {6}, 0);
    EXPECT_TRUE(
        test::within(difference(of.exported(applied, name).values, applied.logits(of.samples)), 0.0, 1e-6))
        << name;
  }
}

}  // namespace
}  // namespace flotilla
