// SPDX-License-Identifier: Apache-2.0
// Networks of model.kind = "layers": plans, names, and gradients on all devices of a machine without a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "kernels/cpu/native_precisions.hpp"
#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/config/layer_texts.hpp"
#include "src/train/model_kinds.hpp"
#include "src/train/plan_notes.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/relative_difference.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::relative_difference;
using Texts = std::vector<std::string>;

ModelConfig model_of(const Texts& layers, std::int64_t classes = 3) {
  ModelConfig model;
  model.kind = "layers";
  model.layers = layers;
  model.classes = classes;
  return model;
}

/// A network of three classes with its arenas, random samples and labels.
struct Fixture {
  Fixture(const Texts& layers, const Shape& sample, const std::string& kind = "reference",
          Precision precision = Precision::float32, int threads = 1, std::int64_t batch = 6)
      : device(make_device({.kind = kind, .threads = threads, .precision = precision})) {
    Config config;
    config.model = model_of(layers);
    network = make_network(*device, config, {.sample = sample, .batch = batch});
    const auto floats = [](const TensorSet& set) { return static_cast<std::size_t>(set.layout().size()); };
    parameters = device->memory().allocate(floats(network->parameters()));
    gradients = device->memory().allocate(floats(network->parameters()));
    statistics = device->memory().allocate(floats(network->statistics()));
    step_statistics = device->memory().allocate(floats(network->statistics()));
    sums = device->memory().allocate(loss_sums);
    network->bind({.parameters = parameters.span(),
                   .gradients = gradients.span(),
                   .statistics = statistics.span(),
                   .step_statistics = step_statistics.span()});
    network->parameters().initialise(device->memory(), 7, parameters.span());
    network->statistics().initialise(device->memory(), 7, statistics.span());
    Random random(3, random_data);
    samples.resize(static_cast<std::size_t>(batch * sample.size()));
    for (float& value : samples) value = static_cast<float>(random.normal());
    for (std::int64_t n = 0; n < batch; ++n) labels.push_back(static_cast<std::int32_t>(n % 3));
  }

  Targets targets() const { return {.labels = labels, .valid = static_cast<std::int64_t>(labels.size())}; }
  double loss(Pass pass = Pass::training, std::uint64_t draw = 5) {
    device->flat().fill(sums.span(), 0.0F);
    network->forward(samples, targets(), {pass, draw}, sums.span());
    std::vector<float> found(loss_sums);
    device->memory().download(sums.span(), found);
    return static_cast<double>(found[sum_loss]);
  }
  /// All gradients in plain order, one tensor after another.
  std::vector<float> step() {
    loss();
    network->backward(targets(), 1.0F, [](std::int64_t) {});
    return plain(gradients);
  }
  std::vector<float> plain(const Storage& arena) const {
    const TensorSet& set = network->parameters();
    std::vector<float> all;
    for (std::size_t i = 0; i < set.layout().slices().size(); ++i) {
      std::vector<float> stored(static_cast<std::size_t>(set.layout()[i].size));
      device->memory().download(part_of<const float>(arena.span(), set.layout()[i]), stored);
      std::vector<float> values(static_cast<std::size_t>(set.layout()[i].shape.size()));
      if (set.is_plain(i)) {
        values = stored;
      } else {
        set.to_plain(i, stored, values);
      }
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  double loss_beside(std::int64_t parameter, float change) {
    const auto one = parameters.span().subspan(static_cast<std::size_t>(parameter), 1);
    float before = 0.0F;
    device->memory().download(one, {&before, 1});
    const float changed = before + change;
    device->memory().upload({&changed, 1}, one);
    const double found = loss();
    device->memory().upload({&before, 1}, one);
    return found;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Network> network;
  Storage parameters, gradients, statistics, step_statistics, sums;
  std::vector<float> samples;
  std::vector<std::int32_t> labels;
};

struct Case {
  const char* name;
  Texts layers;
  Shape sample;
};

std::ostream& operator<<(std::ostream& out, const Case& of) {
  return out << of.name;
}

/// Every layer, on images of one and of three channels whose sides differ, and on rows. 16 channels lie in
/// blocks on the CPU, 6 do not.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"Convolutions",
       {"conv 16 3 padding 1", "tanh", "max_pool 2", "conv 6 3 stride 2 no_bias", "batch_norm", "relu",
        "linear 3"},
       {1, 10, 12}},
      {"Flattened",
       {"conv 16 3", "batch_norm", "silu", "average_pool 2", "flatten", "gelu", "linear 7", "sigmoid",
        "dropout 0.3", "linear 3"},
       {3, 8, 6}},
      {"Residuals",
       {"conv 16 3 padding 1", "residual", "conv 16 3 padding 1", "batch_norm", "end", "relu",
        "residual projection", "conv 32 3 stride 2 padding 1", "gelu", "conv 32 1", "end",
        "global_average_pool", "linear 3"},
       {3, 7, 5}},
      {"GlobalAverageLast", {"conv 6 3", "gelu", "conv 3 1", "global_average_pool"}, {2, 5, 5}},
      {"Rows",
       {"linear 8", "batch_norm", "relu", "residual", "linear 8", "silu", "linear 8", "end", "layer_norm",
        "tanh", "linear 3"},
       {9}},
      {"ImagesAsRows", {"flatten", "linear 12", "tanh", "linear 3"}, {1, 4, 5}},
  };
  return all;
}

class LayerNetworks : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Layers, LayerNetworks, testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

// As in test_network.cpp, gradients are compared with central differences in float; few of them cross a kink
// of ReLU or of a maximum.
TEST_P(LayerNetworks, GradientsAreCentralDifferences) {
  Fixture fixture(GetParam().layers, GetParam().sample);
  const std::vector<float> gradient = [&] {
    fixture.step();
    std::vector<float> values(fixture.gradients.size());
    fixture.device->memory().download(fixture.gradients.span(), values);
    return values;
  }();
  constexpr float h = 1.0F / 1024.0F;
  int far = 0;
  int seen = 0;

  for (const Slice& slice : fixture.network->layout().slices()) {
    for (std::int64_t i = 0; i < slice.size; i += 1 + slice.size / 12) {
      const std::int64_t at = slice.offset + i;
      const double found =
          (fixture.loss_beside(at, h) - fixture.loss_beside(at, -h)) / (2.0 * static_cast<double>(h));
      const double expected = static_cast<double>(gradient[static_cast<std::size_t>(at)]);
      ++seen;
      if (std::abs(found - expected) > 2e-3 + 2e-2 * std::abs(expected)) ++far;
    }
  }
  EXPECT_LE(far, seen / 20) << "of " << seen;
}

TEST_P(LayerNetworks, GiveTheGradientsOfTheReferenceOnTheCpu) {
  Fixture reference(GetParam().layers, GetParam().sample);
  const std::vector<float> expected = reference.step();

  for (const int threads : {1, 2}) {
    Fixture cpu(GetParam().layers, GetParam().sample, "cpu", Precision::float32, threads);
    EXPECT_EQ(cpu.plain(cpu.parameters), reference.plain(reference.parameters));
    EXPECT_TRUE(test::within(cpu.loss(), reference.loss(), 1e-4));
    EXPECT_TRUE(test::within(relative_difference(cpu.step(), expected), 0.0, 2e-5));
    EXPECT_TRUE(test::within(cpu.loss(Pass::inference), reference.loss(Pass::inference), 1e-4));
  }
}

TEST_P(LayerNetworks, GiveTheGradientsOfTheReferenceInBfloat16) {
  if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
  Fixture exact(GetParam().layers, GetParam().sample);
  Fixture reference(GetParam().layers, GetParam().sample, "reference", Precision::bfloat16);
  Fixture cpu(GetParam().layers, GetParam().sample, "cpu", Precision::bfloat16);
  const std::vector<float> gradients = exact.step();

  const double rounding = relative_difference(reference.step(), gradients);
  EXPECT_TRUE(test::within(relative_difference(cpu.step(), gradients), 0.0, 2.0 * rounding + 0.01));
  EXPECT_TRUE(test::within(cpu.loss(), exact.loss(), 0.3));
}

/// PyTorch 2.15.0's losses of nn.Sequential networks of these layers without dropout, in float64: parameter
/// k, in the order of parameters(), is 0.3 sin(0.7 k), value i of the samples cos(0.37 i); cross_entropy,
/// summed.
TEST_P(LayerNetworks, HaveTheLossOfPyTorch) {
  const std::map<std::string, double> losses = {{"Convolutions", 6.543208}, {"Flattened", 6.708044},
                                                {"Residuals", 11.535642},   {"GlobalAverageLast", 6.681953},
                                                {"Rows", 6.759570},         {"ImagesAsRows", 7.120612}};
  Texts layers = GetParam().layers;
  std::erase_if(layers, [](const std::string& text) { return text.starts_with("dropout"); });
  Fixture fixture(layers, GetParam().sample);
  int k = 0;
  for (const Slice& slice : fixture.network->layout().slices()) {
    std::vector<float> values(static_cast<std::size_t>(slice.size));
    for (std::int64_t i = 0; i < slice.shape.size(); ++i)
      values[static_cast<std::size_t>(i)] = static_cast<float>(0.3 * std::sin(0.7 * k++));
    fixture.device->memory().upload(values, part_of<float>(fixture.parameters.span(), slice));
  }
  for (std::size_t i = 0; i < fixture.samples.size(); ++i)
    fixture.samples[i] = static_cast<float>(std::cos(0.37 * static_cast<double>(i)));

  EXPECT_TRUE(test::within(fixture.loss(), losses.at(GetParam().name), 2e-5));
}

TEST(LayerNetwork, DrawsDropoutForEachStepAndNotInInference) {
  const Shape sample{1, 6, 6};
  Fixture with({"flatten", "linear 12", "dropout 0.5", "linear 3"}, sample);

  EXPECT_NE(with.loss(Pass::training, 5), with.loss(Pass::training, 6));
  const double inference = with.loss(Pass::inference, 5);
  EXPECT_EQ(inference, with.loss(Pass::inference, 6));
  EXPECT_NE(inference, with.loss(Pass::training, 5));
}

TEST(LayerNetwork, GivesEachDropoutAMaskOfItsOwn) {
  constexpr std::int64_t values = 400;
  Fixture fixture({"flatten", "dropout 0.5", "dropout 0.5", "linear 3"}, {1, 20, 20}, "reference",
                  Precision::float32, 1, 1);
  const std::vector<float> gradients = fixture.step();  // of the weights, then of the biases
  int kept = 0;
  for (std::size_t i = 0; i < values; ++i) kept += gradients[i] != 0.0F ? 1 : 0;

  EXPECT_TRUE(
      test::within(kept, values / 4, 5 * std::sqrt(values * 0.25 * 0.75)));  // one mask twice: values / 2
  // A value that both keep counts 1 / 0.5 twice.
  for (std::size_t i = 0; i < values; ++i) {
    if (gradients[i] == 0.0F) continue;
    EXPECT_TRUE(test::within(gradients[i] / gradients[3 * values], 4.0F * fixture.samples[i],
                             1e-4 * std::abs(fixture.samples[i])));
  }
}

TEST_P(LayerNetworks, FinishTheirGradientsFromTheArenasEndToItsStart) {
  Fixture fixture(GetParam().layers, GetParam().sample);
  fixture.loss();
  std::vector<std::int64_t> begins;
  fixture.network->backward(fixture.targets(), 1.0F, [&](std::int64_t begin) { begins.push_back(begin); });

  EXPECT_TRUE(std::is_sorted(begins.rbegin(), begins.rend()));
  EXPECT_EQ(begins.back(), 0);
}

TEST(LayerNetwork, NamesItsTensorsAsTorchsSequential) {
  const Fixture fixture(cases()[2].layers, cases()[2].sample);
  std::string names;
  for (const Slice& slice : fixture.network->layout().slices())
    names += slice.name + " " + slice.shape.text() + "\n";

  EXPECT_EQ(names,
            "0.weight 16x3x3x3\n0.bias 16\n1.0.weight 16x16x3x3\n1.0.bias 16\n1.1.weight 16\n1.1.bias 16\n"
            "3.0.weight 32x16x3x3\n3.0.bias 32\n3.2.weight 32x32x1x1\n3.2.bias 32\n"
            "3.shortcut.0.weight 32x16x1x1\n3.shortcut.1.weight 32\n3.shortcut.1.bias 32\n"
            "5.weight 3x32\n5.bias 3\n");
}

TEST(LayerPlan, HasTheShapesAndParametersOfEachLayer) {
  const auto plan =
      plan_layers(layers_of(model_of({"conv 32 3", "relu", "max_pool 2", "linear 3"})), {1, 28, 28});

  const std::vector<std::string> table = describe_layers(plan);
  ASSERT_EQ(table.size(), 6U);
  EXPECT_EQ(table[1],
            "0        conv 32 3                                32x26x26          320           194688");
  EXPECT_EQ(table[3],
            "2        max_pool 2                               32x13x13            0                0");
  EXPECT_EQ(table[5],
            "all                                                               16547           210912");
}

TEST(LayerPlan, CountsTheParametersOfTheNetwork) {
  for (const Case& each : cases()) {
    const Fixture fixture(each.layers, each.sample);
    std::int64_t planned = 0;
    for (const PlannedLayer& layer : plan_layers(layers_of(model_of(each.layers)), each.sample))
      planned += layer.parameters;
    EXPECT_EQ(planned, fixture.network->layout().values()) << each.name;
  }
}

/// torchvision's count of parameters, and fvcore's of multiplications.
TEST(LayerPlan, CountsWhatResnet50Multiplies) {
  ModelConfig model = model_of({}, 1000);
  model.kind = "resnet";
  model.depth = 50;

  const auto table = describe_layers(plan_model(model, {3, 224, 224}, Purpose::training));

  EXPECT_TRUE(table.back().ends_with("25557032       4089184256")) << table.back();
}

TEST(LayerPlan, RefusesGreyImagesForAResnet) {
  ModelConfig model = model_of({});
  model.kind = "resnet";
  EXPECT_THROW(plan_model(model, {1, 32, 32}, Purpose::training), UserError);
}

std::string refusal(const Texts& layers, const Shape& sample = {1, 8, 8}) {
  return test::error_of([&] { plan_layers(layers_of(model_of(layers)), sample); });
}

TEST(LayerPlan, RefusesLayersThatDoNotFitNamingThem) {
  EXPECT_EQ(refusal({"conv 4 3", "conv 4 9", "linear 3"}),
            "model.layers[1] = \"conv 4 9\": a kernel of 9 is larger than the image, 4x6x6 with padding 0");
  EXPECT_EQ(refusal({"linear 4", "conv 4 3", "linear 3"}),
            "model.layers[1] = \"conv 4 3\": this layer takes images, and here are rows of 4 values: it must "
            "stand before flatten, linear and global_average_pool");
  EXPECT_EQ(refusal({"linear 4"}),
            "model.layers[0] = \"linear 4\": the last layer has 4 outputs, model.classes is 3: give both one "
            "number");
  EXPECT_EQ(refusal({"linear 3", "relu"}),
            "model.layers[1] = \"relu\": the last layer must be linear or global_average_pool, whose outputs "
            "are the classes' logits: the softmax is the loss's");
  EXPECT_EQ(refusal({"conv 4 3", "residual", "conv 8 3", "end", "linear 3"}),
            "model.layers[3] = \"end\": the residual begins with 4x6x6 values and ends with 8x4x4: write "
            "\"residual projection\", whose shortcut is a convolution and batch_norm, or keep the shape");
  EXPECT_EQ(refusal({"conv 4 3", "residual projection", "conv 8 2", "end", "linear 3"}),
            "model.layers[3] = \"end\": no stride of a projection makes images 8x5x5 of 4x6x6");
  EXPECT_EQ(
      refusal({"conv 4 3", "residual", "residual", "end", "end", "linear 3"}),
      "model.layers[2] = \"residual\": a residual cannot be in another one: close that with \"end\" before");
  EXPECT_EQ(refusal({"conv 4 3", "residual", "relu", "linear 3"}),
            "model.layers[3] = \"linear 3\": an image cannot be flattened in a residual: close it with "
            "\"end\" before");
  EXPECT_EQ(refusal({"linear 5", "residual", "linear 5"}),
            "model.layers[1] = \"residual\": this residual has no \"end\"");
  EXPECT_EQ(refusal({"linear 5", "end", "linear 3"}),
            "model.layers[1] = \"end\": there is no \"residual\" to end");
  EXPECT_EQ(refusal({"linear 5", "residual", "end", "linear 3"}),
            "model.layers[2] = \"end\": there is no layer in this residual");
  EXPECT_EQ(refusal({"conv 4 3", "flatten", "batch_norm", "linear 3"}),
            "model.layers[2] = \"batch_norm\": between flatten and the linear layer behind it only "
            "activations and dropout may stand");
  EXPECT_EQ(refusal({"batch_norm", "linear 3"}),
            "model.layers[0] = \"batch_norm\": the first layer of a network for images must be conv, flatten "
            "or linear");
  EXPECT_EQ(refusal({"conv 4 3", "linear 3"}, {5, 8, 8}),
            "model.layers[0] = \"conv 4 3\": images have at most 4 channels");
  EXPECT_EQ(
      refusal({"conv 4 3", "max_pool 2 padding 2", "linear 3"}),
      "model.layers[1] = \"max_pool 2 padding 2\": the padding of pooling must be at most half its kernel");
}

}  // namespace
}  // namespace flotilla
