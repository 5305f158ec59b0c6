// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/layer_norm_run.hpp"
#include "tests/kernels/loops_device.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::read;
using test::read_image;
using test::values;

constexpr Precision all_precisions[] = {Precision::float32, Precision::float16, Precision::bfloat16};

struct Case {
  BatchNormSpec spec;
  Precision precision = Precision::float32;
  float centre = 0.0F;  ///< Of the values that are normalised.
  bool two_gradients = false;
  int passes = 1;
};

struct Results {
  std::vector<float> mean, variance, y, dx, dresidual, dscale, dshift;
  friend bool operator==(const Results&, const Results&) = default;
};

/// Training forward and backward on a device whose inputs are rounded to the case's precision.
Results run(Device& device, const Case& of) {
  const BatchNormSpec& spec = of.spec;
  const auto plan = device.layers().batch_norm(spec);
  const auto channels = static_cast<std::size_t>(spec.input[1]);
  const bool adds = spec.after == AfterNorm::add_relu;
  const auto image = [&](std::uint64_t stream, float centre) {
    std::vector<float> made = values(spec.input.size(), stream);
    for (float& value : made) value += centre;
    return test::image_of(device, spec.input, test::rounded(of.precision, made));
  };
  const Tensor x = image(1, of.centre);
  const Tensor residual = image(2, 0.0F);
  const Tensor dy = image(3, 0.0F);
  const Tensor more = image(4, 0.0F);
  std::vector<float> scales = values(spec.input[1], 5);
  for (float& scale : scales) scale += 1.5F;
  const Storage scale = test::storage_of(device, scales);
  const Storage shift = test::storage_of(device, values(spec.input[1], 6));
  const std::vector<float> stale(channels, spec.accumulate ? 1.0F : 99.0F);
  Storage mean = test::storage_of(device, stale);
  Storage variance = test::storage_of(device, stale);
  Storage dscale = test::storage_of(device, stale);
  Storage dshift = test::storage_of(device, stale);
  Tensor y = test::stale_image(device, spec.input);
  Tensor dx = test::stale_image(device, spec.input);
  Tensor dresidual = test::stale_image(device, spec.input);
  const ScaleShift w{scale.span(), shift.span()};
  for (int pass = 0; pass < of.passes; ++pass) {
    plan->forward(x, adds ? &residual : nullptr, w, {mean.span(), variance.span()}, {}, y);
    plan->backward(x, y, w, {mean.span(), variance.span()}, dy, of.two_gradients ? &more : nullptr,
                   {dscale.span(), dshift.span()}, dx, adds ? &dresidual : nullptr);
  }
  return {read(device, mean),     read(device, variance),        read_image(device, y),
          read_image(device, dx), read_image(device, dresidual), read(device, dscale),
          read(device, dshift)};
}

double largest(const std::vector<float>& of) {
  double most = 1.0;
  for (const float value : of) most = std::max(most, std::abs(double{value}));
  return most;
}

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected, double relative,
                  const char* what) {
  EXPECT_TRUE(test::within(test::largest_difference(actual, expected), 0.0, relative * largest(expected)))
      << what;
}

void expect_agreement(const Case& of) {
  SCOPED_TRACE(cat(of.spec.input.text(), " after ", static_cast<int>(of.spec.after), " precision ",
                   static_cast<int>(of.precision), " centre ", of.centre));
  const auto loops = test::loops_device(of.precision);
  const auto oracle = make_device({.kind = "reference"});

  const Results actual = run(*loops, of);
  const Results expected = run(*oracle, of);

  // As on the CPU: values of size `centre` are themselves only known to eps · centre.
  const double computed = 3e-6 * std::max(1.0, std::abs(double{of.centre}));
  const double summed = computed * std::sqrt(static_cast<double>(of.spec.input.size() / of.spec.input[1]));
  // What is written is rounded once, dx from a dz that was rounded too; values where the sign of a y near
  // zero differs from the reference's are those that float does not tell apart from zero.
  const double stored = of.precision == Precision::float32 ? 0.0 : 2.0 * test::rounding_error(of.precision);
  expect_close(actual.mean, expected.mean, 1e-6, "mean");
  expect_close(actual.variance, expected.variance, computed, "variance");
  expect_close(actual.y, expected.y, computed + stored, "y");
  expect_close(actual.dscale, expected.dscale, summed, "dscale");
  expect_close(actual.dshift, expected.dshift, summed, "dshift");
  expect_close(actual.dx, expected.dx, 4.0 * computed + 2.0 * stored, "dx");
  expect_close(actual.dresidual, expected.dresidual, 1e-6 + stored, "dresidual");
}

TEST(LoopsBatchNorm, AgreesWithTheReferenceForManyShapes) {
  for (const Precision precision : all_precisions) {
    for (const AfterNorm after : {AfterNorm::nothing, AfterNorm::relu, AfterNorm::add_relu}) {
      // Channels that are no whole packs, a part of a team's, several teams'; rows for one team and for many.
      for (const std::int64_t channels : {1, 3, 8, 20, 64, 300, 512})
        expect_agreement({.spec = {.input = {2, channels, 5, 7}, .after = after}, .precision = precision});
      expect_agreement({.spec = {.input = {3, 16, 40, 41}, .after = after}, .precision = precision});
      expect_agreement({.spec = {.input = {16, 32, 1, 1}, .after = after}, .precision = precision});
    }
  }
}

TEST(LoopsBatchNorm, AddsTheTilesOfManyRows) {
  // More rows than 1,024 teams for each of two blocks of channels with 8 rows a lane: lanes walk further, and
  // the last tile is smaller.
  expect_agreement(
      {.spec = {.input = {4, 33, 129, 130}, .after = AfterNorm::add_relu}, .precision = Precision::float16});
  expect_agreement({.spec = {.input = {1, 8, 300, 301}}});
}

TEST(LoopsBatchNorm, GivesTheSameBitsInAnyOrderOfLanes) {
  for (const Precision precision : all_precisions) {
    const auto loops = test::loops_device(precision);
    for (const std::int64_t channels : {3, 40}) {
      const Case of{.spec = {.input = {3, channels, 16, 17}, .after = AfterNorm::add_relu},
                    .precision = precision};
      test::expect_equal_in_any_order([&] { return run(*loops, of); });
    }
  }
}

TEST(LoopsBatchNorm, AddsTheSecondGradientOfY) {
  for (const std::int64_t channels : {3, 32}) {
    expect_agreement(
        {.spec = {.input = {2, channels, 6, 5}, .after = AfterNorm::add_relu}, .two_gradients = true});
  }
}

TEST(LoopsBatchNorm, LosesNoDigitsWhereTheMeanIsLarge) {
  for (const std::int64_t channels : {3, 32})
    expect_agreement({.spec = {.input = {4, channels, 20, 21}}, .centre = 100.0F});
}

TEST(LoopsBatchNorm, AddsToTheGradientsOnlyWithAccumulate) {
  for (const bool accumulate : {true, false}) {
    expect_agreement(
        {.spec = {.input = {2, 16, 5, 5}, .after = AfterNorm::relu, .accumulate = accumulate}, .passes = 3});
  }
}

TEST(LoopsBatchNorm, GivesNoVarianceToEqualValues) {
  const auto device = test::loops_device();
  const Shape shape{2, 8, 9, 9};
  const Tensor x =
      test::image_of(*device, shape, std::vector<float>(static_cast<std::size_t>(shape.size()), 1e6F));
  Storage mean = device->memory().allocate(8);
  Storage variance = test::storage_of(*device, std::vector<float>(8, 99.0F));

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
    const Storage ones = test::storage_of(*device, std::vector<float>(count, 1.0F));
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

TEST(LoopsBatchNorm, WorksInPlace) {
  const auto device = test::loops_device();
  const Shape shape{2, 16, 5, 5};
  const auto plan = device->layers().batch_norm({.input = shape, .after = AfterNorm::add_relu});
  Tensor x = test::image_of(*device, shape, values(shape.size(), 1));
  const Tensor residual = test::image_of(*device, shape, values(shape.size(), 2));
  Tensor y = test::stale_image(*device, shape);
  const Storage ones = test::storage_of(*device, std::vector<float>(16, 1.0F));
  const ScaleShift w{ones.span(), ones.span()};

  plan->normalise(x, &residual, w, w, y);
  plan->normalise(x, &residual, w, w, x);

  EXPECT_EQ(read_image(*device, x), read_image(*device, y));
}

TEST(LoopsBatchNorm, KeepsNotANumberVisible) {
  for (const Precision precision : all_precisions) {
    const auto device = test::loops_device(precision);
    const Shape shape{1, 16, 2, 2};
    const auto plan = device->layers().batch_norm({.input = shape, .after = AfterNorm::relu});
    std::vector<float> inputs = values(shape.size(), 1);
    inputs[5] = std::numeric_limits<float>::quiet_NaN();  // of channel 1
    const Tensor x = test::image_of(*device, shape, inputs);
    Tensor y = device->images().tensor(shape);
    const Storage ones = test::storage_of(*device, std::vector<float>(16, 1.0F));
    Storage mean = device->memory().allocate(16);
    Storage variance = device->memory().allocate(16);

    plan->forward(x, nullptr, {ones.span(), ones.span()}, {mean.span(), variance.span()}, {}, y);

    const std::vector<float> result = read_image(*device, y);
    EXPECT_EQ(std::count_if(result.begin(), result.end(), [](float v) { return std::isnan(v); }), 4);
  }
}

TEST(LoopsBatchNorm, RefusesWhatItCannotRead) {
  const auto device = test::loops_device();
  const Shape shape{1, 16, 2, 2};
  Tensor x = device->images().tensor(shape);
  Tensor plain = device->tensors().zeros(shape);
  const Storage ones = test::storage_of(*device, std::vector<float>(16, 1.0F));
  const ScaleShift w{ones.span(), ones.span()};
  const auto adds = device->layers().batch_norm({.input = shape, .after = AfterNorm::add_relu});
  const auto without = device->layers().batch_norm({.input = shape});

  EXPECT_THROW(adds->normalise(x, nullptr, w, w, x), InternalError);
  EXPECT_THROW(without->normalise(x, &x, w, w, x), InternalError);
  EXPECT_THROW(without->normalise(plain, nullptr, w, w, x), InternalError);
}

TEST(LoopsLayerNorm, AgreesWithTheReference) {
  for (const Precision precision : all_precisions) {
    for (const LayerNormSpec& spec : {LayerNormSpec{.rows = 7, .columns = 33},
                                      LayerNormSpec{.rows = 20, .columns = 304, .accumulate = true}}) {
      const auto oracle = make_device({.kind = "reference", .precision = precision});
      const auto loops = test::loops_device(precision);
      const auto expected = test::run_layer_norm(*oracle, spec);
      const auto found = test::run_layer_norm(*loops, spec);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(test::within(test::largest_difference(found[i], expected[i]), 0.0,
                                 20.0 * test::rounding_error(precision) + 3e-5))
            << name(precision) << " " << i;
    }
  }
}

TEST(LoopsLayerNorm, GivesTheSameBitsInAnyOrderOfLanes) {
  for (const Precision precision : all_precisions) {
    const auto loops = test::loops_device(precision);
    test::expect_equal_in_any_order(
        [&] { return test::run_layer_norm(*loops, {.rows = 20, .columns = 304}); });
  }
}

}  // namespace
}  // namespace flotilla
