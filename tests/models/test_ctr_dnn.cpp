// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/random.hpp"
#include "models/embedding_bags.hpp"
#include "models/listed_models.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using Floats = std::vector<float>;

/// The dense part of a click model.
std::unique_ptr<Network> make_ctr_dnn(Device& device, std::int64_t batch, std::int64_t features,
                                      const MlpSpec& spec) {
  return make_layer_network(
      device, plan_layers(mlp_layers(spec), {features}),
      {.batch = batch, .input_gradient = true, .initializer = {.kind = Initializer::Kind::lecun_normal}});
}

/// A whole click model: rows, features, network, for one batch of four samples whose last is padding.
struct Fixture {
  Fixture(const std::string& kind, Activation activation, double dropout = 0.0)
      : device(make_device({.kind = kind, .threads = 1})),
        bags_of({.batch = 4, .dense = 2, .slots = 2, .width = 3}),
        found(2, false),
        network(make_ctr_dnn(*device, 4, bags_of.spec().features(),
                             {.widths = {5, 4}, .outputs = 2, .activation = activation, .dropout = dropout})),
        parameters(device->memory().allocate(static_cast<std::size_t>(network->layout().size()))),
        gradients(device->memory().allocate(static_cast<std::size_t>(network->layout().size()))),
        sums(device->memory().allocate(loss_sums)),
        features(device->memory().pinned(4 * 8)) {
    network->bind({.parameters = parameters.span(),
                   .gradients = gradients.span(),
                   .statistics = {},
                   .step_statistics = {}});
    network->parameters().initialise(device->memory(), 7, parameters.span());
    found.find(bags());
    rows.resize(found.keys().size() * 3);
    drows.resize(rows.size());
    Random random(3, random_data);
    for (Floats* to : {&rows, &dense})
      for (float& value : *to) value = static_cast<float>(random.normal());
  }

  Bags bags() const { return {.ids = ids, .values = values, .ends = ends}; }
  Targets targets() const { return {.labels = labels, .valid = 3}; }
  std::span<float> host_features() { return host_span(features.span()); }
  Floats read(DeviceSpan<const float> span) const {
    Floats found_values(span.size());
    device->memory().download(span, found_values);
    return found_values;
  }
  double loss() {
    device->flat().fill(sums.span(), 0.0F);
    bags_of.forward(dense, bags(), found, rows, host_features());
    network->forward(host_features(), targets(), Pass::training, sums.span());
    return static_cast<double>(read(sums.span())[sum_loss]);
  }
  void backward() {
    network->backward(targets(), 1.0F, [](std::int64_t) {});
    bags_of.backward(bags(), found, read(float_values(network->input_gradient())), drows);
  }

  std::unique_ptr<Device> device;
  EmbeddingBags bags_of;
  BatchRows found;
  std::unique_ptr<Network> network;
  Storage parameters, gradients, sums, features;
  Floats dense = Floats(8);
  Floats rows, drows;
  std::vector<std::uint64_t> ids = {4, 9, 4, 2, 2, 9};
  Floats values = {1.0F, 0.5F, -2.0F, 1.0F, 1.0F, 0.25F};
  std::vector<std::int32_t> ends = {2, 3, 3, 5, 5, 6, 6, 6};
  std::vector<std::int32_t> labels = {0, 1, 1, 0};
};

/// Central differences in float: error ≈ h² f'''/6 + ε |loss| / h; with h = 2⁻⁷ and a loss of about 3 that is
/// below 3·10⁻⁴.
double difference(Fixture& f, float& value) {
  constexpr float h = 1.0F / 128.0F;
  const float before = value;
  value = before + h;
  const double above = f.loss();
  value = before - h;
  const double below = f.loss();
  value = before;
  return (above - below) / (2.0 * static_cast<double>(h));
}

/// The derivative of the loss by a parameter, by central differences.
double difference(Fixture& f, std::int64_t parameter) {
  constexpr float h = 1.0F / 128.0F;
  const auto one = f.parameters.span().subspan(static_cast<std::size_t>(parameter), 1);
  const Floats before = f.read(one);
  const auto loss_at = [&](float value) {
    f.device->memory().upload({&value, 1}, one);
    return f.loss();
  };
  const double above = loss_at(before[0] + h);
  const double below = loss_at(before[0] - h);
  f.device->memory().upload(before, one);
  return (above - below) / (2.0 * static_cast<double>(h));
}

class CtrDnnOn : public testing::TestWithParam<const char*> {};

TEST_P(CtrDnnOn, HasTheGradientsOfItsRowsAndWeights) {
  Fixture f(GetParam(), Activation::tanh);
  f.loss();
  f.backward();
  const Floats drows = f.drows;
  const Floats gradients = f.read(f.gradients.span());

  double largest = 0.0;
  for (std::size_t i = 0; i < f.rows.size(); ++i) {
    EXPECT_TRUE(test::within(drows[i], difference(f, f.rows[i]), 1e-3)) << "row value " << i;
    largest = std::max(largest, std::abs(static_cast<double>(drows[i])));
  }
  EXPECT_GT(largest, 0.01);
  for (const Slice& slice : f.network->layout().slices())
    for (std::int64_t i = slice.offset; i < slice.offset + slice.shape.size(); ++i)
      EXPECT_TRUE(test::within(gradients[static_cast<std::size_t>(i)], difference(f, i), 1e-3)) << slice.name;
}

TEST_P(CtrDnnOn, LeavesTheGradientOfItsInputInEveryPass) {
  Fixture f(GetParam(), Activation::relu, 0.5F);
  Floats first;
  for (int pass = 0; pass < 5; ++pass) {
    f.loss();
    f.backward();
    if (pass == 0) first = f.drows;
    EXPECT_EQ(f.drows, first);
  }
}
INSTANTIATE_TEST_SUITE_P(Devices, CtrDnnOn, testing::Values("reference", "cpu"));

TEST(CtrDnn, HasItsInputGradientWhenTheLastParametersAreDone) {
  Fixture f("reference", Activation::relu);
  f.loss();
  EXPECT_THROW(f.network->input_gradient(), InternalError);

  f.network->backward(f.targets(), 1.0F, [&](std::int64_t begin) {
    if (begin == 0) {
      EXPECT_EQ(f.network->input_gradient().shape(), (Shape{4, 8}));
    }
  });
}

TEST(CtrDnn, HasTheSameGradientsOnTheCpuAsOnTheReference) {
  Fixture reference("reference", Activation::relu);
  Fixture cpu("cpu", Activation::relu);
  for (Fixture* f : {&reference, &cpu}) {
    f->loss();
    f->backward();
  }

  // Sums of at most eight products of order 1, three layers deep.
  for (std::size_t i = 0; i < reference.drows.size(); ++i)
    EXPECT_TRUE(test::within(cpu.drows[i], reference.drows[i], 1e-5)) << i;
}

TEST(CtrDnn, StartsWithWeightsOfTheDeviationThatTheOriginalHas) {
  const auto device = make_device({.kind = "reference", .threads = 1});
  const auto network = make_ctr_dnn(*device, 1, 273, {.widths = {400, 400, 400}, .outputs = 2});
  Storage parameters = device->memory().allocate(static_cast<std::size_t>(network->layout().size()));

  network->parameters().initialise(device->memory(), 1, parameters.span());

  const Slice& weight = network->layout()[0];
  ASSERT_EQ(weight.name, "fc1.weight");
  ASSERT_EQ(weight.shape, (Shape{400, 273}));
  const double squares = device->flat().sum_of_squares(parameters.span().subspan(
      static_cast<std::size_t>(weight.offset), static_cast<std::size_t>(weight.shape.size())));
  // The mean square of n normal values has the deviation √(2 / n) = 0.4 %; the bound is five times that.
  EXPECT_TRUE(test::within(squares / static_cast<double>(weight.shape.size()) * 273.0, 1.0, 0.022));
  EXPECT_EQ(network->layout().slices().size(), 8U);
  EXPECT_EQ(network->layout().slices().back().shape, (Shape{2}));
}

TEST(Network, ThatWasNotBuiltForItHasNoGradientOfItsInput) {
  const auto device = make_device({.kind = "reference", .threads = 1});
  const auto network =
      make_layer_network(*device, plan_layers(mlp_layers({.widths = {}, .outputs = 2}), {2}), {.batch = 1});
  Storage parameters = device->memory().allocate(static_cast<std::size_t>(network->layout().size()));
  Storage gradients = device->memory().allocate(static_cast<std::size_t>(network->layout().size()));
  Storage sums = device->memory().allocate(loss_sums);
  network->bind({.parameters = parameters.span(),
                 .gradients = gradients.span(),
                 .statistics = {},
                 .step_statistics = {}});
  Floats image = {1.0F, 2.0F};
  const std::vector<std::int32_t> labels = {1};
  network->forward(image, {.labels = labels, .valid = 1}, Pass::training, sums.span());

  network->backward({.labels = labels, .valid = 1}, 1.0F, [](std::int64_t) {});

  EXPECT_THROW(network->input_gradient(), InternalError);
}

}  // namespace
}  // namespace flotilla
