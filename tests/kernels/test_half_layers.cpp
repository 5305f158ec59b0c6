// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/half_rounding.hpp"
#include "tests/kernels/convolutions.hpp"
#include "tests/kernels/image_layer_runs.hpp"
#include "tests/kernels/linear_run.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/relative_difference.hpp"
#include "tests/support/within.hpp"

// The reference device in half precision: what is rounded, what is not, and how far that takes the results.

namespace flotilla {
namespace {

using test::image_of;
using test::read;
using test::read_image;
using test::values;

bool are_halves(Precision precision, const std::vector<float>& of) {
  return std::ranges::all_of(of, [&](float value) { return half::rounded(precision, value) == value; });
}

std::unique_ptr<Device> device_of(Precision precision) {
  return make_device({.kind = "reference", .precision = precision});
}

class HalfLayers : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, HalfLayers, testing::Values(Precision::float16, Precision::bfloat16),
                         [](const auto& test) { return std::string(name(test.param)); });

/// Weights are smaller, so that sums do not leave tanh's slope.
std::vector<float> layer_values(std::int64_t count, std::uint64_t stream) {
  return values(count, stream, stream == 2 ? 0.3 : 1.0);
}

test::LinearRun run_linear(Precision precision) {
  return test::run_linear(*device_of(precision),
                          {.batch = 16, .in = 40, .out = 24, .activation = Activation::tanh}, 1,
                          layer_values);
}

TEST_P(HalfLayers, ALinearLayerLeavesHalvesButForTheGradientsOfItsParameters) {
  const test::LinearRun results = run_linear(GetParam());

  EXPECT_TRUE(are_halves(GetParam(), results.y));
  EXPECT_TRUE(are_halves(GetParam(), results.dz));
  EXPECT_TRUE(are_halves(GetParam(), results.dx));
  EXPECT_FALSE(are_halves(GetParam(), results.dw));
  EXPECT_FALSE(are_halves(GetParam(), results.db));
}

// The bound is relative to the norm of the compared values: each rounding of operands, of which there are
// independent ones (x, w: 2 in y; y and dy, w: 3 in dx and dw, whose slopes double those of y), and the last
// one of the result.
TEST_P(HalfLayers, ALinearLayerIsAsFarFromFloat32AsItsRoundings) {
  const double unit = test::rounding_error(GetParam());

  const test::LinearRun found = run_linear(GetParam());
  const test::LinearRun expected = run_linear(Precision::float32);

  EXPECT_TRUE(test::within(test::relative_difference(found.y, expected.y), 0.0, 3.0 * unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.dx, expected.dx), 0.0, 6.0 * unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.dw, expected.dw), 0.0, 6.0 * unit));
  EXPECT_TRUE(test::within(test::relative_difference(found.db, expected.db), 0.0, 5.0 * unit));
  EXPECT_GT(test::relative_difference(found.y, expected.y), 0.05 * unit);
}

test::ConvRun run_conv(Precision precision, int passes = 1) {
  return test::run_conv2d(*device_of(precision),
                          {.input = {2, 6, 7, 7},
                           .out_channels = 8,
                           .kernel = 3,
                           .stride = 2,
                           .padding = 1,
                           .bias = true,
                           .accumulate = passes > 1},
                          passes, layer_values);
}

TEST_P(HalfLayers, AConvolutionLeavesHalvesAsFarFromFloat32AsItsRoundings) {
  const double unit = test::rounding_error(GetParam());

  const test::ConvRun found = run_conv(GetParam());
  const test::ConvRun expected = run_conv(Precision::float32);

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
  const test::ConvRun once = run_conv(GetParam());
  const test::ConvRun thrice = run_conv(GetParam(), 3);

  std::vector<float> expected = once.dw;
  for (float& value : expected) value = (value + value) + value;
  EXPECT_EQ(thrice.dw, expected);
  EXPECT_FALSE(are_halves(GetParam(), thrice.dw));
}

/// Batch norm of inputs that the precision `inputs` represents exactly.
test::BatchNormResults run_norm(Device& device, Precision inputs) {
  return test::run_batch_norm(device, {.spec = {.input = {4, 3, 5, 5}, .after = AfterNorm::add_relu},
                                       .precision = inputs,
                                       .two_gradients = true});
}

TEST_P(HalfLayers, BatchNormRoundsWhatItWritesAndNothingOfItsChannels) {
  const double unit = test::rounding_error(GetParam());

  const test::BatchNormResults found = run_norm(*device_of(GetParam()), GetParam());
  const test::BatchNormResults expected = run_norm(*device_of(Precision::float32), GetParam());

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
  EXPECT_TRUE(test::mentions(device_of(Precision::bfloat16)->info().description, {"bfloat16"}));
  EXPECT_EQ(device_of(Precision::float32)->tensors().floats_of({3, 5}), 15U);
}

}  // namespace
}  // namespace flotilla
