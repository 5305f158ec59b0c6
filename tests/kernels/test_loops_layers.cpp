// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/kernels/loops_device.hpp"

// What only the layers of a GPU promise: test_loops runs the tests of all devices besides.

namespace flotilla {
namespace {

using test::filled;
using test::read;
using test::read_image;
using test::values;

TEST(LoopsBatchNorm, GivesNoVarianceToEqualValues) {
  const auto device = test::loops_device();
  const Shape shape{2, 8, 9, 9};
  const Tensor x = test::image_of(*device, shape, filled(shape.size(), 1e6F));
  Storage mean = device->memory().allocate(8);
  Storage variance = test::storage_of(*device, filled(8, 99.0F));

  device->layers().batch_norm({.input = shape})->statistics(x, {mean.span(), variance.span()});

  EXPECT_EQ(read(*device, mean), std::vector<float>(8, 1e6F));
  EXPECT_EQ(read(*device, variance), std::vector<float>(8, 0.0F));
}

// The product with the momentum is rounded, the sum is not rounded in between.
TEST(LoopsBatchNorm, UpdatesTheRunningStatistics) {
  const auto device = test::loops_device();
  for (const std::int64_t channels : {3, 20}) {
    const Shape shape{2, channels, 3, 3};
    const auto plan = device->layers().batch_norm({.input = shape});
    const Tensor x = test::image_of(*device, shape, values(shape.size(), 1));
    Tensor y = test::stale_image(*device, shape);
    const auto count = static_cast<std::size_t>(channels);
    const Storage ones = test::storage_of(*device, filled(channels, 1.0F));
    Storage mean = device->memory().allocate(count);
    Storage variance = device->memory().allocate(count);
    std::vector<float> means = values(channels, 2);
    std::vector<float> variances = values(channels, 3);
    Storage running_mean = test::storage_of(*device, means);
    Storage running_variance = test::storage_of(*device, variances);
    const RunningRates rates = running_rates(0.9F, 18);

    for (int pass = 0; pass < 2; ++pass) {
      plan->forward(x, nullptr, {ones.span(), ones.span()}, {mean.span(), variance.span()},
                    {{running_mean.span(), running_variance.span()}, 0.9F}, y);
      for (std::size_t c = 0; c < count; ++c) {
        volatile float kept = 0.9F * means[c];
        means[c] = std::fma(rates.mean, read(*device, mean)[c], kept);
        kept = 0.9F * variances[c];
        variances[c] = std::fma(rates.variance, read(*device, variance)[c], kept);
      }
    }

    EXPECT_EQ(read(*device, running_mean), means) << channels;
    EXPECT_EQ(read(*device, running_variance), variances) << channels;
  }
}

TEST(LoopsBatchNorm, RefusesAPlainTensor) {
  const auto device = test::loops_device();
  const Shape shape{1, 16, 2, 2};
  Tensor x = device->images().tensor(shape);
  const Tensor plain = device->tensors().zeros(shape);
  const Storage ones = test::storage_of(*device, filled(16, 1.0F));
  const ScaleShift w{ones.span(), ones.span()};
  const auto norm = device->layers().batch_norm({.input = shape});

  EXPECT_THROW(norm->normalise(plain, nullptr, w, w, x), InternalError);
}

TEST(LoopsPooling, GivesTheGradientToTheFirstOfEqualValuesAndToNotANumber) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float least = -std::numeric_limits<float>::infinity();
  const auto device = test::loops_device();
  const auto plan = device->layers().pool2d({.input = {1, 1, 2, 6}, .kernel = 2, .stride = 2});
  const Tensor x = test::image_of(*device, {1, 1, 2, 6},
                                  {1, 3, 2, 9, least, least,  //
                                   3, 3, nan, 5, least, least});
  const Tensor dy = test::image_of(*device, {1, 1, 1, 3}, {1, 2, 4});
  Tensor y = test::stale_image(*device, {1, 1, 1, 3});
  Tensor dx = test::stale_image(*device, {1, 1, 2, 6});

  plan->forward(x, y);
  plan->backward(dy, dx);

  EXPECT_EQ(read_image(*device, y)[0], 3.0F);
  EXPECT_TRUE(std::isnan(read_image(*device, y)[1]));
  EXPECT_EQ(read_image(*device, dx), (std::vector<float>{0, 1, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0}));
}

TEST(LoopsPooling, RefusesAKernelWhosePlacesDoNotFitAByte) {
  const auto device = test::loops_device();
  const Tensor x = device->images().tensor({1, 1, 20, 20});
  Tensor y = device->images().tensor({1, 1, 4, 4});

  EXPECT_THROW(device->layers().pool2d({.input = {1, 1, 20, 20}, .kernel = 17})->forward(x, y),
               InternalError);
}

TEST(LoopsImages, ViewsTakeTheFloatsOfTheirPrecision) {
  const auto device = test::loops_device(Precision::bfloat16);
  Storage memory = device->memory().allocate(16);

  const Tensor view = device->images().view({1, 3, 1, 9}, memory.span().subspan(0, 14));

  EXPECT_EQ(float_values(view).address(), memory.span().address());
  EXPECT_THROW(device->images().view({1, 3, 1, 9}, memory.span()), InternalError);
  EXPECT_THROW(device->images().view({1, 3, 1, 8}, memory.span().subspan(1, 12)), InternalError);
}

}  // namespace
}  // namespace flotilla
