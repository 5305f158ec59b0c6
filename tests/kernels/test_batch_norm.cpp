// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::read;
using test::read_image;
using test::values;

/// Two plain values per channel on a device.
struct Pair {
  Storage first, second;
  ChannelPair<float> span() { return {first.span(), second.span()}; }
  static Pair of(Device& device, std::int64_t channels, std::uint64_t stream, float raised) {
    std::vector<float> one = values(channels, stream);
    for (float& value : one) value += raised;
    return {test::storage_of(device, one), test::storage_of(device, values(channels, stream + 1))};
  }
};

struct Results {
  std::vector<float> mean, variance, y, inferred, dx, dresidual, dscale, dshift;
};

/// Training forward and backward `passes` times, then inference with the batch's own statistics, which come
/// from values around `centre`.
Results run(Device& device, const BatchNormSpec& spec, float centre, bool two_gradients, int passes = 1) {
  const auto plan = device.layers().batch_norm(spec);
  const std::int64_t channels = spec.input[1];
  const bool adds = spec.after == AfterNorm::add_relu;
  std::vector<float> inputs = values(spec.input.size(), 1);
  for (float& value : inputs) value += centre;
  const Tensor x = test::image_of(device, spec.input, inputs);
  const Tensor residual = test::image_of(device, spec.input, values(spec.input.size(), 2));
  const Tensor dy = test::image_of(device, spec.input, values(spec.input.size(), 3));
  const Tensor more = test::image_of(device, spec.input, values(spec.input.size(), 4));
  Pair w = Pair::of(device, channels, 5, 1.5F);
  Pair statistics = Pair::of(device, channels, 7, 0.0F);
  const float before = spec.accumulate ? 0.0F : 99.0F;
  const std::vector<float> stale(static_cast<std::size_t>(channels), before);
  Pair gradients{test::storage_of(device, stale), test::storage_of(device, stale)};
  Tensor y = test::stale_image(device, spec.input);
  Tensor dx = test::stale_image(device, spec.input);
  Tensor dresidual = test::stale_image(device, spec.input);
  for (int pass = 0; pass < passes; ++pass) {
    plan->forward(x, adds ? &residual : nullptr, w.span(), statistics.span(), {}, y);
    plan->backward(x, y, w.span(), statistics.span(), dy, two_gradients ? &more : nullptr, gradients.span(),
                   dx, adds ? &dresidual : nullptr);
  }
  Tensor in_place = test::image_of(device, spec.input, inputs);
  Pair running = Pair::of(device, channels, 9, 0.0F);
  std::vector<float> variances = read(device, running.second);
  for (float& value : variances) value = value * value;
  device.memory().upload(variances, running.second.span());
  plan->normalise(in_place, adds ? &residual : nullptr, w.span(), running.span(), in_place);
  return {read(device, statistics.first), read(device, statistics.second), read_image(device, y),
          read_image(device, in_place),   read_image(device, dx),          read_image(device, dresidual),
          read(device, gradients.first),  read(device, gradients.second)};
}

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

void expect_agreement(const BatchNormSpec& spec, int threads, float centre = 0.0F, bool two_gradients = false,
                      int passes = 1) {
  SCOPED_TRACE(cat(spec.input.text(), " after ", static_cast<int>(spec.after), " threads ", threads,
                   " centre ", centre));
  const auto cpu = make_device({.kind = "cpu", .threads = threads});
  const auto oracle = make_device({.kind = "reference"});

  const Results actual = run(*cpu, spec, centre, two_gradients, passes);
  const Results expected = run(*oracle, spec, centre, two_gradients, passes);

  // Values of size `centre` are themselves only known to eps · centre.
  const double values_bound = 3e-6 * std::max(1.0, std::abs(double{centre}));
  const double sums_bound = values_bound * std::sqrt(static_cast<double>(spec.input.size() / spec.input[1]));
  expect_close(actual.mean, expected.mean, 1e-6, "mean");
  expect_close(actual.variance, expected.variance, values_bound, "variance");
  expect_close(actual.y, expected.y, values_bound, "y");
  expect_close(actual.inferred, expected.inferred, values_bound, "inferred");
  expect_close(actual.dscale, expected.dscale, sums_bound, "dscale");
  expect_close(actual.dshift, expected.dshift, sums_bound, "dshift");
  expect_close(actual.dx, expected.dx, 4.0 * values_bound, "dx");
  expect_close(actual.dresidual, expected.dresidual, 1e-6, "dresidual");
}

TEST(CpuBatchNorm, AgreesWithTheReferenceForManyShapes) {
  for (const AfterNorm after : {AfterNorm::nothing, AfterNorm::relu, AfterNorm::add_relu}) {
    for (const std::int64_t batch : {1, 2, 5}) {
      for (const std::int64_t channels : {1, 3, 16, 24, 32, 48}) {
        expect_agreement({.input = {batch, channels, 5, 7}, .after = after}, 1);
        expect_agreement({.input = {batch, channels, 17, 16}, .after = after}, 2);
      }
    }
    expect_agreement({.input = {16, 32, 1, 1}, .after = after}, 1);
    expect_agreement({.input = {2, 16, 50, 51}, .after = after}, 2);
  }
}

TEST(CpuBatchNorm, AddsTheSecondGradientOfY) {
  for (const std::int64_t channels : {3, 32})
    expect_agreement({.input = {2, channels, 6, 5}, .after = AfterNorm::add_relu}, 2, 0.0F, true);
}

TEST(CpuBatchNorm, TakesLargeImagesInGroupsOfChannels) {
  expect_agreement({.input = {2, 48, 192, 192}, .after = AfterNorm::add_relu}, 2);
}

TEST(CpuBatchNorm, LosesNoDigitsWhereTheMeanIsLarge) {
  for (const std::int64_t channels : {3, 32}) expect_agreement({.input = {4, channels, 20, 21}}, 2, 100.0F);
}

TEST(CpuBatchNorm, AddsToTheGradientsOnlyWithAccumulate) {
  BatchNormSpec spec{.input = {2, 16, 5, 5}, .after = AfterNorm::relu, .accumulate = true};

  expect_agreement(spec, 1, 0.0F, false, 3);
  spec.accumulate = false;
  expect_agreement(spec, 1, 0.0F, false, 3);
}

TEST(CpuBatchNorm, GivesTheSameBitsOnAnyNumberOfThreads) {
  // Larger than what passes leave in the cache.
  const BatchNormSpec spec{.input = {3, 32, 60, 61}, .after = AfterNorm::add_relu};
  const auto one = make_device({.kind = "cpu", .threads = 1});
  const auto two = make_device({.kind = "cpu", .threads = 3});

  const Results serial = run(*one, spec, 1.0F, true);
  const Results parallel = run(*two, spec, 1.0F, true);

  EXPECT_EQ(serial.variance, parallel.variance);
  EXPECT_EQ(serial.y, parallel.y);
  EXPECT_EQ(serial.dx, parallel.dx);
  EXPECT_EQ(serial.dscale, parallel.dscale);
}

TEST(BatchNorm, HalvesWithSummedStatisticsAreTheWholeBatch) {
  // Two workers with half of the batch each, which add up sums and combine statistics, do what one does.
  const Shape whole{4, 16, 3, 3};
  const Shape half{2, 16, 3, 3};
  const auto device = make_device({.kind = "cpu"});
  ImageOperations& images = device->images();
  const std::vector<float> inputs = values(whole.size(), 1);
  const std::vector<float> gradients = values(whole.size(), 2);
  const auto middle = static_cast<std::ptrdiff_t>(half.size());
  Pair w = Pair::of(*device, 16, 5, 1.5F);
  Pair statistics = Pair::of(*device, 16, 7, 0.0F);
  Pair sums = Pair::of(*device, 16, 7, 0.0F);
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

  EXPECT_TRUE(test::within(test::largest_difference(actual, expected), 0.0, 2e-6));
}

TEST(BatchNorm, MovesTheRunningVarianceTowardsTheUnbiasedOne) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    Pair batch{test::storage_of(*device, {3.0F}), test::storage_of(*device, {2.0F})};
    Pair running{test::storage_of(*device, {1.0F}), test::storage_of(*device, {1.0F})};

    update_running_statistics(device->flat(), batch.span(), 5, {running.span(), 0.9F});

    EXPECT_TRUE(test::within_float_roundings(read(*device, running.first)[0], 0.9F + 0.3F, 4)) << kind;
    EXPECT_TRUE(test::within_float_roundings(read(*device, running.second)[0], 0.9F + 0.1F * 2.5F, 4))
        << kind;
    EXPECT_THROW(update_running_statistics(device->flat(), batch.span(), 1, {running.span(), 0.9F}),
                 InternalError);
  }
}

TEST(BatchNorm, UpdatesTheRunningStatisticsOfATrainingPass) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const Shape shape{2, 20, 3, 3};
    const auto plan = device->layers().batch_norm({.input = shape});
    const Tensor x = test::image_of(*device, shape, values(shape.size(), 1));
    Tensor y = test::stale_image(*device, shape);
    Pair w = Pair::of(*device, 20, 5, 1.0F);
    Pair batch = Pair::of(*device, 20, 7, 0.0F);
    Pair running = Pair::of(*device, 20, 9, 1.0F);
    Pair expected = Pair::of(*device, 20, 9, 1.0F);

    for (int pass = 0; pass < 2; ++pass) {
      plan->forward(x, nullptr, w.span(), batch.span(), {running.span(), 0.9F}, y);
      update_running_statistics(device->flat(), batch.span(), 18, {expected.span(), 0.9F});
    }

    EXPECT_EQ(read(*device, running.first), read(*device, expected.first)) << kind;
    EXPECT_EQ(read(*device, running.second), read(*device, expected.second)) << kind;
  }
}

TEST(BatchNorm, KeepsNotANumberVisible) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const Shape shape{1, 16, 2, 2};
    const auto plan = device->layers().batch_norm({.input = shape, .after = AfterNorm::relu});
    std::vector<float> inputs = values(shape.size(), 1);
    inputs[5] = std::numeric_limits<float>::quiet_NaN();  // of channel 1
    const Tensor x = test::image_of(*device, shape, inputs);
    Tensor y = device->images().tensor(shape);
    Pair w = Pair::of(*device, 16, 5, 1.0F);
    Pair statistics = Pair::of(*device, 16, 7, 0.0F);

    plan->statistics(x, statistics.span());
    plan->normalise(x, nullptr, w.span(), statistics.span(), y);

    const std::vector<float> result = read_image(*device, y);
    EXPECT_EQ(std::count_if(result.begin(), result.end(), [](float v) { return std::isnan(v); }), 4) << kind;
  }
}

TEST(BatchNorm, RefusesAResidualThatItDoesNotAdd) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const Shape shape{1, 16, 2, 2};
    Tensor x = device->images().tensor(shape);
    Pair w = Pair::of(*device, 16, 5, 1.0F);
    const auto adds = device->layers().batch_norm({.input = shape, .after = AfterNorm::add_relu});
    const auto plain = device->layers().batch_norm({.input = shape});

    EXPECT_THROW(adds->normalise(x, nullptr, w.span(), w.span(), x), InternalError);
    EXPECT_THROW(plain->normalise(x, &x, w.span(), w.span(), x), InternalError);
    EXPECT_THROW(plain->backward(x, x, w.span(), w.span(), x, &x, w.span(), x, nullptr), InternalError);
  }
}

}  // namespace
}  // namespace flotilla
