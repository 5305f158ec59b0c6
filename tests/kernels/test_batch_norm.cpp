// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/image_layer_runs.hpp"
#include "tests/kernels/tested_devices.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::BatchNormCase;
using test::BatchNormResults;
using test::ChannelValues;
using test::read;
using test::read_image;
using test::run_batch_norm;
using test::values;

double largest(const std::vector<float>& values) {
  double most = 1.0;
  for (const float value : values) most = std::max(most, std::abs(double{value}));
  return most;
}

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected, double relative,
                  const char* what) {
  EXPECT_TRUE(test::within(test::largest_difference(actual, expected), 0.0, relative * largest(expected)))
      << what;
}

class BatchNorm : public test::EachDevice {
 protected:
  void expect_agreement(BatchNormCase of) {
    of.precision = precision();
    SCOPED_TRACE(of.text());
    const auto oracle = make_device({.kind = "reference"});

    const BatchNormResults actual = run_batch_norm(*device, of);
    const BatchNormResults expected = run_batch_norm(*oracle, of);

    // Values of size `centre` are themselves only known to eps · centre.
    const double computed = 3e-6 * std::max(1.0, std::abs(double{of.centre}));
    const double summed = computed * std::sqrt(static_cast<double>(of.spec.input.size() / of.spec.input[1]));
    // What is written is rounded once, dx from a dz that was rounded too; values where the sign of a y near
    // zero differs from the reference's are those that float does not tell apart from zero.
    const double stored = test::stored_apart(precision());
    expect_close(actual.mean, expected.mean, 1e-6, "mean");
    expect_close(actual.variance, expected.variance, computed, "variance");
    expect_close(actual.y, expected.y, computed + stored, "y");
    expect_close(actual.inferred, expected.inferred, computed + stored, "inferred");
    expect_close(actual.dscale, expected.dscale, summed, "dscale");
    expect_close(actual.dshift, expected.dshift, summed, "dshift");
    expect_close(actual.dx, expected.dx, 4.0 * computed + 2.0 * stored, "dx");
    expect_close(actual.dresidual, expected.dresidual, 1e-6 + stored, "dresidual");
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, BatchNorm, testing::ValuesIn(test::tested_devices()), test::name_of_device);

using BatchNormOfEach = test::EachDevice;
INSTANTIATE_TEST_SUITE_P(Devices, BatchNormOfEach, testing::ValuesIn(test::tested_devices_and_reference()),
                         test::name_of_device);

TEST_P(BatchNorm, AgreesWithTheReferenceForManyShapes) {
  for (const AfterNorm after : {AfterNorm::nothing, AfterNorm::relu, AfterNorm::add_relu}) {
    for (const std::int64_t batch : {1, 2, 5}) {
      for (const std::int64_t channels : {1, 3, 16, 24, 32, 48}) {
        expect_agreement({.spec = {.input = {batch, channels, 5, 7}, .after = after}});
        expect_agreement({.spec = {.input = {batch, channels, 17, 16}, .after = after}});
      }
    }
    // Channels of a part of a team of the loops, and of several teams.
    for (const std::int64_t channels : {8, 20, 64, 300, 512})
      expect_agreement({.spec = {.input = {2, channels, 5, 7}, .after = after}});
    expect_agreement({.spec = {.input = {16, 32, 1, 1}, .after = after}});
    expect_agreement({.spec = {.input = {2, 16, 50, 51}, .after = after}});
  }
}

TEST_P(BatchNorm, AddsTheSecondGradientOfY) {
  for (const std::int64_t channels : {3, 32})
    expect_agreement(
        {.spec = {.input = {2, channels, 6, 5}, .after = AfterNorm::add_relu}, .two_gradients = true});
}

// The threads of a CPU take images of more than a cache in groups of channels. The loops add tiles of more
// rows than 1,024 teams for each of two blocks of channels with 8 rows a lane; the last tile is smaller.
TEST_P(BatchNorm, TakesLargeImagesInParts) {
  if (device->info().threads > 1)
    expect_agreement({.spec = {.input = {2, 48, 192, 192}, .after = AfterNorm::add_relu}});
  if (precision() == Precision::float16)
    expect_agreement({.spec = {.input = {4, 33, 129, 130}, .after = AfterNorm::add_relu}});
  if (precision() == Precision::float32) expect_agreement({.spec = {.input = {1, 8, 300, 301}}});
}

TEST_P(BatchNorm, LosesNoDigitsWhereTheMeanIsLarge) {
  for (const std::int64_t channels : {3, 32})
    expect_agreement({.spec = {.input = {4, channels, 20, 21}}, .centre = 100.0F});
}

TEST_P(BatchNorm, AddsToTheGradientsOnlyWithAccumulate) {
  for (const bool accumulate : {true, false})
    expect_agreement(
        {.spec = {.input = {2, 16, 5, 5}, .after = AfterNorm::relu, .accumulate = accumulate}, .passes = 3});
}

TEST_P(BatchNorm, GivesTheSameBitsInAnyOrder) {
  // The last one is larger than what passes leave in the cache.
  for (const Shape& shape : {Shape{3, 3, 16, 17}, Shape{3, 40, 16, 17}, Shape{3, 32, 60, 61}})
    expect_same_bits([&](Device& on) {
      return run_batch_norm(on, {.spec = {.input = shape, .after = AfterNorm::add_relu},
                                 .precision = precision(),
                                 .centre = 1.0F,
                                 .two_gradients = true});
    });
}

TEST_P(BatchNorm, HalvesWithSummedStatisticsAreTheWholeBatch) {
  // Two workers with half of the batch each, which add up sums and combine statistics, do what one does.
  const Shape whole{4, 16, 3, 3};
  const Shape half{2, 16, 3, 3};
  ImageOperations& images = device->images();
  const std::vector<float> inputs = values(whole.size(), 1);
  const std::vector<float> gradients = values(whole.size(), 2);
  const auto middle = static_cast<std::ptrdiff_t>(half.size());
  ChannelValues w(*device, 16, 5, 1.5F);
  ChannelValues statistics(*device, 16, 7, 0.0F);
  ChannelValues sums(*device, 16, 7, 0.0F);
  Tensor y = images.tensor(whole);
  Tensor dx = images.tensor(whole);
  const auto plan = device->layers().batch_norm({.input = whole});
  const Tensor x = test::image_of(*device, whole, inputs);
  const Tensor dy = test::image_of(*device, whole, gradients);
  plan->statistics(x, statistics.span());
  plan->normalise(x, nullptr, w.span(), statistics.span(), y);
  plan->backward(x, y, w.span(), statistics.span(), dy, nullptr, sums.span(), dx, nullptr);
  const std::vector<float> expected = read_image(*device, dx);

  const auto part = device->layers().batch_norm({.input = half});
  std::vector<float> scale(16, 0.0F);
  std::vector<float> shift(16, 0.0F);
  std::vector<float> actual;
  for (const bool summing : {true, false}) {
    for (const std::ptrdiff_t begin : {std::ptrdiff_t{0}, middle}) {
      const auto of = [&](const std::vector<float>& v) {
        return std::vector<float>(v.begin() + begin, v.begin() + begin + middle);
      };
      const Tensor part_x = test::image_of(*device, half, of(inputs));
      const Tensor part_dy = test::image_of(*device, half, of(gradients));
      Tensor part_dx = images.tensor(half);
      if (summing) {
        part->backward_sums(part_x, part_x, w.span(), statistics.span(), part_dy, nullptr, nullptr,
                            sums.span());
        const std::vector<float> first = read(*device, sums.first);
        const std::vector<float> second = read(*device, sums.second);
        for (std::size_t c = 0; c < 16; ++c) scale[c] += first[c];
        for (std::size_t c = 0; c < 16; ++c) shift[c] += second[c];
        continue;
      }
      device->memory().upload(scale, sums.first.span());
      device->memory().upload(shift, sums.second.span());
      part->backward_data(part_x, w.span(), statistics.span(), sums.span(), 36.0, part_dy, part_dx);
      const std::vector<float> half_dx = read_image(*device, part_dx);
      actual.insert(actual.end(), half_dx.begin(), half_dx.end());
    }
  }

  EXPECT_TRUE(test::within(test::largest_difference(actual, expected), 0.0,
                           2e-6 + 4.0 * test::stored_apart(precision())));
}

TEST_P(BatchNormOfEach, MovesTheRunningVarianceTowardsTheUnbiasedOne) {
  ChannelValues batch(*device, {3.0F}, {2.0F});
  ChannelValues running(*device, {1.0F}, {1.0F});

  update_running_statistics(device->flat(), batch.span(), 5, {running.span(), 0.9F});

  EXPECT_TRUE(test::within_float_roundings(read(*device, running.first)[0], 0.9F + 0.3F, 4));
  EXPECT_TRUE(test::within_float_roundings(read(*device, running.second)[0], 0.9F + 0.1F * 2.5F, 4));
  EXPECT_THROW(update_running_statistics(device->flat(), batch.span(), 1, {running.span(), 0.9F}),
               InternalError);
}

TEST(HostBatchNorm, UpdatesTheRunningStatisticsOfATrainingPass) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const Shape shape{2, 20, 3, 3};
    const auto plan = device->layers().batch_norm({.input = shape});
    const Tensor x = test::image_of(*device, shape, values(shape.size(), 1));
    Tensor y = test::stale_image(*device, shape);
    ChannelValues w(*device, 20, 5, 1.0F);
    ChannelValues batch(*device, 20, 7, 0.0F);
    ChannelValues running(*device, 20, 9, 1.0F);
    ChannelValues expected(*device, 20, 9, 1.0F);

    for (int pass = 0; pass < 2; ++pass) {
      plan->forward(x, nullptr, w.span(), batch.span(), {running.span(), 0.9F}, y);
      update_running_statistics(device->flat(), batch.span(), 18, {expected.span(), 0.9F});
    }

    EXPECT_EQ(read(*device, running.first), read(*device, expected.first)) << kind;
    EXPECT_EQ(read(*device, running.second), read(*device, expected.second)) << kind;
  }
}

TEST_P(BatchNormOfEach, WorksInPlace) {
  const Shape shape{2, 16, 5, 5};
  const auto plan = device->layers().batch_norm({.input = shape, .after = AfterNorm::add_relu});
  Tensor x = test::image_of(*device, shape, values(shape.size(), 1));
  const Tensor residual = test::image_of(*device, shape, values(shape.size(), 2));
  Tensor y = test::stale_image(*device, shape);
  ChannelValues ones(*device, test::filled(16, 1.0F), test::filled(16, 1.0F));

  plan->normalise(x, &residual, ones.span(), ones.span(), y);
  plan->normalise(x, &residual, ones.span(), ones.span(), x);

  EXPECT_EQ(read_image(*device, x), read_image(*device, y));
}

TEST_P(BatchNormOfEach, KeepsNotANumberVisible) {
  const Shape shape{1, 16, 2, 2};
  const auto plan = device->layers().batch_norm({.input = shape, .after = AfterNorm::relu});
  std::vector<float> inputs = values(shape.size(), 1);
  inputs[5] = std::numeric_limits<float>::quiet_NaN();  // of channel 1
  const Tensor x = test::image_of(*device, shape, inputs);
  Tensor y = device->images().tensor(shape);
  ChannelValues w(*device, 16, 5, 1.0F);
  ChannelValues batch(*device, 16, 7, 0.0F);

  const auto expect_four_in_y = [&] {
    const std::vector<float> result = read_image(*device, y);
    EXPECT_EQ(std::ranges::count_if(result, [](float v) { return std::isnan(v); }), 4);
  };
  plan->forward(x, nullptr, w.span(), batch.span(), {}, y);
  expect_four_in_y();

  y = test::stale_image(*device, shape);
  plan->statistics(x, batch.span());
  plan->normalise(x, nullptr, w.span(), batch.span(), y);
  expect_four_in_y();
}

TEST_P(BatchNormOfEach, RefusesAResidualThatItDoesNotAdd) {
  const Shape shape{1, 16, 2, 2};
  Tensor x = device->images().tensor(shape);
  ChannelValues w(*device, 16, 5, 1.0F);
  const auto adds = device->layers().batch_norm({.input = shape, .after = AfterNorm::add_relu});
  const auto plain = device->layers().batch_norm({.input = shape});

  EXPECT_THROW(adds->normalise(x, nullptr, w.span(), w.span(), x), InternalError);
  EXPECT_THROW(plain->normalise(x, &x, w.span(), w.span(), x), InternalError);
  EXPECT_THROW(plain->backward(x, x, w.span(), w.span(), x, &x, w.span(), x, nullptr), InternalError);
}

}  // namespace
}  // namespace flotilla
