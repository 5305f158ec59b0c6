// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/random.hpp"
#include "models/listed_models.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

/// A small network on the reference device with its arenas and one batch.
struct Fixture {
  explicit Fixture(Activation activation, const std::string& kind = "reference", bool accumulate = false)
      : device(make_device({.kind = kind, .threads = 1})),
        network(make_layer_network(
            *device, plan_layers(mlp_layers({.widths = {5, 3}, .outputs = 3, .activation = activation}), {6}),
            {.batch = 4, .label_smoothing = 0.1F, .accumulate = accumulate})),
        parameters(device->memory().allocate(static_cast<std::size_t>(network->layout().size()))),
        gradients(device->memory().allocate(static_cast<std::size_t>(network->layout().size()))),
        sums(device->memory().allocate(loss_sums)) {
    network->bind({.parameters = parameters.span(),
                   .gradients = gradients.span(),
                   .statistics = {},
                   .step_statistics = {}});
    network->parameters().initialise(device->memory(), 7, parameters.span());
    Random random(3, random_data);
    for (float& value : images) value = static_cast<float>(random.normal());
  }

  double loss() {
    device->flat().fill(sums.span(), 0.0F);
    network->forward(images, {.labels = labels, .valid = 3}, Pass::training, sums.span());
    return static_cast<double>(read(sums)[sum_loss]);
  }
  void backward() {
    network->backward({.labels = labels, .valid = 3}, 1.0F, [](std::int64_t) {});
  }
  std::vector<float> read(const Storage& storage) const {
    std::vector<float> values(storage.size());
    device->memory().download(storage.span(), values);
    return values;
  }
  /// The loss with one parameter changed by that much.
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

  std::vector<float> plain(std::size_t slice, DeviceSpan<const float> arena) const {
    const Slice& where = network->layout()[slice];
    std::vector<float> stored(static_cast<std::size_t>(where.size));
    device->memory().download(arena.subspan(static_cast<std::size_t>(where.offset), stored.size()), stored);
    std::vector<float> values(static_cast<std::size_t>(where.shape.size()));
    network->parameters().to_plain(slice, stored, values);
    return values;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Network> network;
  Storage parameters;
  Storage gradients;
  Storage sums;
  std::vector<float> images = std::vector<float>(24);
  std::vector<std::int32_t> labels = {0, 2, 1, 0};
};

class NetworkGradient : public testing::TestWithParam<Activation> {};

// Central differences in float: error ≈ h² f'''/6 + ε |loss| / h; with h = 2⁻⁷ and a loss of about 4 that is
// below 2·10⁻⁴.
TEST_P(NetworkGradient, AgreesWithCentralDifferences) {
  Fixture fixture(GetParam());
  fixture.loss();
  fixture.backward();
  const std::vector<float> gradient = fixture.read(fixture.gradients);
  constexpr float h = 1.0F / 128.0F;

  for (const Slice& slice : fixture.network->layout().slices()) {
    for (std::int64_t i = slice.offset; i < slice.offset + slice.shape.size(); ++i) {
      const double above = fixture.loss_beside(i, h);
      const double below = fixture.loss_beside(i, -h);
      EXPECT_TRUE(test::within(gradient[static_cast<std::size_t>(i)], (above - below) / (2.0 * h), 1e-3))
          << slice.name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Activations, NetworkGradient,
                         testing::Values(Activation::tanh, Activation::sigmoid, Activation::identity));

TEST(Network, AnnouncesGradientsFromTheEndToTheStart) {
  Fixture fixture(Activation::tanh);
  std::vector<std::int64_t> begins;

  fixture.loss();
  fixture.network->backward({.labels = fixture.labels, .valid = 3}, 1.0F,
                            [&](std::int64_t begin) { begins.push_back(begin); });

  const ArenaLayout& layout = fixture.network->layout();
  EXPECT_EQ(begins, (std::vector<std::int64_t>{layout[4].offset, layout[2].offset, 0}));
}

TEST(Network, AddsTheGradientsOfMicroStepsWhereAsked) {
  Fixture once(Activation::tanh, "reference", false);
  Fixture twice(Activation::tanh, "reference", true);

  once.loss();
  once.backward();
  for (int i = 0; i < 2; ++i) {
    twice.loss();
    twice.backward();
  }

  const std::vector<float> one = once.read(once.gradients);
  const std::vector<float> two = twice.read(twice.gradients);
  for (std::size_t i = 0; i < one.size(); ++i)
    ASSERT_TRUE(test::within_float_roundings(two[i], 2.0F * one[i], 4)) << i;
}

TEST(Network, ExportsAndImportsPlainValues) {
  for (const char* kind : {"reference", "cpu"}) {
    Fixture fixture(Activation::tanh, kind);
    const std::size_t middle = 2;  // fc2.weight (3,5)

    const std::vector<float> plain = fixture.plain(middle, fixture.parameters.span());
    fixture.network->parameters().import_slice(fixture.device->memory(), middle, plain,
                                               fixture.gradients.span());
    const std::vector<float> again = fixture.plain(middle, fixture.gradients.span());

    EXPECT_EQ(plain, again) << kind;
  }
}

TEST(Network, StartsWithTheSameValuesOnEveryDevice) {
  Fixture reference(Activation::tanh, "reference");
  Fixture cpu(Activation::tanh, "cpu");
  const std::vector<float> expected = reference.plain(0, reference.parameters.span());
  const std::vector<float> found = cpu.plain(0, cpu.parameters.span());

  EXPECT_EQ(expected, found);
  const double bound = std::sqrt(6.0 / (6 + 5));
  for (const float value : expected) EXPECT_TRUE(-bound <= value && value <= bound) << value;
}

}  // namespace
}  // namespace flotilla
