// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/half_rounding.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/support/relative_difference.hpp"
#include "tests/support/within.hpp"

// The reference device in half precision: what is rounded, what is not, and how far that takes the results.

namespace flotilla {
namespace {

using test::image_of;
using test::read;
using test::read_image;
using test::values;

/// Half the spacing of the values from 1 to 2: the relative error of one rounding.
double unit_of(Precision precision) {
  return std::ldexp(1.0, precision == Precision::float16 ? -11 : -8);
}

bool are_halves(Precision precision, const std::vector<float>& of) {
  return std::ranges::all_of(of, [&](float value) { return half::rounded(precision, value) == value; });
}

std::unique_ptr<Device> device_of(Precision precision) {
  return make_device({.kind = "reference", .precision = precision});
}

class HalfLayers : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, HalfLayers, testing::Values(Precision::float16, Precision::bfloat16),
                         [](const auto& test) { return std::string(name(test.param)); });

struct LinearResults {
  std::vector<float> y, dz, dx, dw, db;
};

LinearResults run_linear(Device& device) {
  const LinearSpec spec{.batch = 16, .in = 40, .out = 24, .activation = Activation::tanh};
  const auto plan = device.layers().linear(spec);
  const Storage weight = test::storage_of(device, values(spec.out * spec.in, 2, 0.3));
  const Storage bias = test::storage_of(device, values(spec.out, 3));
  Storage dw = device.memory().allocate(weight.size());
  Storage db = device.memory().allocate(bias.size());
  const Tensor x = test::tensor_of(device, {spec.batch, spec.in}, values(spec.batch * spec.in, 1));
  Tensor y = device.tensors().zeros({spec.batch, spec.out});
  Tensor dx = device.tensors().zeros({spec.batch, spec.in});
  Tensor dy = test::tensor_of(device, {spec.batch, spec.out}, values(spec.batch * spec.out, 4));
  plan->forward(x, {weight.span(), bias.span()}, y);
  plan->backward(x, y, {weight.span(), bias.span()}, dy, {dw.span(), db.span()}, &dx);
  return {read(device, y), read(device, dy), read(device, dx), read(device, dw), read(device, db)};
}

TEST_P(HalfLayers, ALinearLayerLeavesHalvesButForTheGradientsOfItsParameters) {
  const LinearResults results = run_linear(*device_of(GetParam()));

  EXPECT_TRUE(are_halves(GetParam(), results.y));
  EXPECT_TRUE(are_halves(GetParam(), results.dz));
  EXPECT_TRUE(are_halves(GetParam(), results.dx));
  EXPECT_FALSE(are_halves(GetParam(), results.dw));
  EXPECT_FALSE(are_halves(GetParam(), results.db));
}

// Relative to the norm of what it is about: each rounding of operands, of which there are independent ones
// (x, w: 2 in y; y and dy, w: 3 in dx and dw, whose slopes double those of y), and the last one of the
// result.
TEST_P(HalfLayers, ALinearLayerIsAsFarFromFloat32AsItsRoundings) {
  const double unit = unit_of(GetParam());

  const LinearResults found = run_linear(*device_of(GetParam()));
  const LinearResults expected = run_linear(*device_of(Precision::float32));

  EXPECT_TRUE(test::within(test::relative_difference(found.y, expected.y), 0.0, 3.0 * unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.dx, expected.dx), 0.0, 6.0 * unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.dw, expected.dw), 0.0, 6.0 * unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.db, expected.db), 0.0, 5.0 * unit));
  EXPECT_GT(test::relative_difference(found.y, expected.y), 0.05 * unit);
}

struct ConvResults {
  std::vector<float> y, dx, dw, db;
};

ConvResults run_conv(Device& device, int passes = 1) {
  const Conv2dSpec spec{.input = {2, 6, 7, 7},
                        .out_channels = 8,
                        .kernel = 3,
                        .stride = 2,
                        .padding = 1,
                        .bias = true,
                        .accumulate = passes > 1};
  const auto plan = device.layers().conv2d(spec);
  const Shape output = output_shape(spec);
  const Storage weight = test::storage_of(device, values(plan->weight_size(), 2, 0.3));
  const Storage bias = test::storage_of(device, values(spec.out_channels, 3));
  Storage dw = device.memory().allocate(weight.size());
  Storage db = device.memory().allocate(bias.size());
  const Tensor x = image_of(device, spec.input, values(spec.input.size(), 1));
  const std::vector<float> gradient = read_image(device, image_of(device, output, values(output.size(), 4)));
  const Tensor dy = image_of(device, output, gradient);
  Tensor y = test::stale_image(device, output);
  Tensor dx = test::stale_image(device, spec.input);
  plan->forward(x, {weight.span(), bias.span()}, y);
  plan->backward_data(dy, {weight.span(), bias.span()}, dx);
  for (int pass = 0; pass < passes; ++pass) plan->backward_weights(x, dy, {dw.span(), db.span()});
  return {read_image(device, y), read_image(device, dx), read(device, dw), read(device, db)};
}

TEST_P(HalfLayers, AConvolutionLeavesHalvesAsFarFromFloat32AsItsRoundings) {
  const double unit = unit_of(GetParam());

  const ConvResults found = run_conv(*device_of(GetParam()));
  const ConvResults expected = run_conv(*device_of(Precision::float32));

  EXPECT_TRUE(are_halves(GetParam(), found.y));
  EXPECT_TRUE(are_halves(GetParam(), found.dx));
  EXPECT_TRUE(are_halves(GetParam(), found.dw));
  EXPECT_TRUE(test::within(test::relative_difference(found.y, expected.y), 0.0, 3.0 * unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.dx, expected.dx), 0.0, 3.0 * unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.dw, expected.dw), 0.0, 3.0 * unit));
  EXPECT_EQ(found.db, expected.db);
  EXPECT_GT(test::relative_difference(found.dw, expected.dw), 0.05 * unit);
}

TEST_P(HalfLayers, GradientsOfAConvolutionAreAddedUpInFloat32) {
  const ConvResults once = run_conv(*device_of(GetParam()));
  const ConvResults thrice = run_conv(*device_of(GetParam()), 3);

  std::vector<float> expected = once.dw;
  for (float& value : expected) value = (value + value) + value;
  EXPECT_EQ(thrice.dw, expected);
  EXPECT_FALSE(are_halves(GetParam(), thrice.dw));
}

struct NormResults {
  std::vector<float> mean, variance, y, dx, dresidual, dscale, dshift;
};

NormResults run_norm(Device& device, Precision inputs) {
  const BatchNormSpec spec{.input = {4, 3, 5, 5}, .after = AfterNorm::add_relu};
  const auto plan = device.layers().batch_norm(spec);
  const auto halves = [&](std::uint64_t stream) {
    std::vector<float> of = values(spec.input.size(), stream);
    for (float& value : of) value = half::rounded(inputs, value);
    return image_of(device, spec.input, of);
  };
  const Tensor x = halves(1);
  const Tensor residual = halves(2);
  const Tensor dy = halves(3);
  const Tensor more = halves(4);
  const Storage scale = test::storage_of(device, {1.1F, 0.7F, 1.3F});
  const Storage shift = test::storage_of(device, {0.1F, -0.1F, 0.3F});
  Storage mean = device.memory().allocate(3);
  Storage variance = device.memory().allocate(3);
  Storage dscale = device.memory().allocate(3);
  Storage dshift = device.memory().allocate(3);
  Tensor y = test::stale_image(device, spec.input);
  Tensor dx = test::stale_image(device, spec.input);
  Tensor dresidual = test::stale_image(device, spec.input);
  const ScaleShift w{scale.span(), shift.span()};
  const Statistics statistics{mean.span(), variance.span()};
  plan->forward(x, &residual, w, statistics, {}, y);
  plan->backward(x, y, w, statistics, dy, &more, {dscale.span(), dshift.span()}, dx, &dresidual);
  return {read(device, mean),     read(device, variance),        read_image(device, y),
          read_image(device, dx), read_image(device, dresidual), read(device, dscale),
          read(device, dshift)};
}

TEST_P(HalfLayers, BatchNormRoundsWhatItWritesAndNothingOfItsChannels) {
  const double unit = unit_of(GetParam());

  const NormResults found = run_norm(*device_of(GetParam()), GetParam());
  const NormResults expected = run_norm(*device_of(Precision::float32), GetParam());

  // The same halves went in.
  EXPECT_EQ(found.mean, expected.mean);
  EXPECT_EQ(found.variance, expected.variance);
  EXPECT_TRUE(are_halves(GetParam(), found.y));
  EXPECT_TRUE(are_halves(GetParam(), found.dx));
  EXPECT_TRUE(are_halves(GetParam(), found.dresidual));
  EXPECT_TRUE(test::within(test::relative_difference(found.y, expected.y), 0.0, unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.dresidual, expected.dresidual), 0.0, unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.dx, expected.dx), 0.0, 3.0 * unit));
  EXPECT_EQ(found.dscale, expected.dscale);
  EXPECT_EQ(found.dshift, expected.dshift);
}

TEST_P(HalfLayers, PoolingDropoutAndAddReluLeaveHalves) {
  const auto device = device_of(GetParam());
  ImageOperations& images = device->images();
  const Shape shape{2, 3, 6, 6};
  const Tensor x = image_of(*device, shape, values(shape.size(), 1));
  const auto pool = device->layers().pool2d(
      {.input = shape, .kind = Pooling::average_including_padding, .kernel = 3, .stride = 3});
  Tensor pooled = test::stale_image(*device, pool->output_shape());
  Tensor back = test::stale_image(*device, shape);
  pool->forward(x, pooled);
  EXPECT_TRUE(are_halves(GetParam(), read_image(*device, pooled)));
  pool->backward(pooled, back);
  EXPECT_TRUE(are_halves(GetParam(), read_image(*device, back)));

  Tensor sum = test::stale_image(*device, shape);
  images.add_relu(x, x, sum);
  EXPECT_TRUE(are_halves(GetParam(), read_image(*device, sum)));
  images.add(x, sum);
  EXPECT_TRUE(are_halves(GetParam(), read_image(*device, sum)));

  const auto dropout = device->layers().dropout({.input = {30, 7}, .probability = 0.3F, .seed = 1});
  const Tensor plain = test::tensor_of(*device, {30, 7}, values(210, 2));
  Tensor dropped = device->tensors().zeros({30, 7});
  dropout->forward(0, plain, dropped);
  EXPECT_TRUE(are_halves(GetParam(), read(*device, dropped)));
}

TEST_P(HalfLayers, TheLossIsInFloat32AndItsGradientInHalves) {
  const auto device = device_of(GetParam());
  const auto loss = device->layers().softmax_loss({.batch = 8, .classes = 5});
  const std::vector<std::int32_t> labels = {0, 1, 2, 3, 4, 0, 1, 2};
  const Tensor logits = test::tensor_of(*device, {8, 5}, values(40, 1));
  Storage sums = device->memory().allocate(loss_sums);
  Tensor gradient = device->tensors().zeros({8, 5});

  loss->forward(logits, {labels, 8}, sums.span());
  loss->backward(logits, {labels, 8}, 0.125F, gradient);

  EXPECT_FALSE(are_halves(GetParam(), {read(*device, sums)[sum_loss]}));
  EXPECT_TRUE(are_halves(GetParam(), read(*device, gradient)));
}

TEST(HalfLayersOfFloat16, AnOverflowIsSeen) {
  const auto device = device_of(Precision::float16);
  const auto loss = device->layers().softmax_loss({.batch = 1, .classes = 2});
  const std::vector<std::int32_t> labels = {0};
  Tensor logits = device->tensors().zeros({1, 2});

  loss->backward(logits, {labels, 1}, 131'072.0F, logits);

  EXPECT_FALSE(device->tensors().all_finite(logits));  // ∓ 65536
}

TEST(HalfPrecision, IsWhatTheDeviceSays) {
  EXPECT_EQ(device_of(Precision::bfloat16)->info().precision, Precision::bfloat16);
  EXPECT_NE(device_of(Precision::bfloat16)->info().description.find("bfloat16"), std::string::npos);
  EXPECT_EQ(device_of(Precision::float32)->tensors().floats_of({3, 5}), 15U);
}

}  // namespace
}  // namespace flotilla
