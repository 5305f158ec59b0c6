// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "tests/kernels/image_layer_runs.hpp"
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

TEST(LoopsBatchNorm, NormalisesTheResidualInThePassOfTheSum) {
  for (const Precision precision : test::all_precisions) {
    const auto device = test::loops_device(precision);
    for (const Shape& shape : {Shape{2, 3, 5, 4}, Shape{3, 24, 7, 7}, Shape{2, 64, 16, 16}}) {
      const std::int64_t channels = shape[1];
      const auto other = device->layers().batch_norm({.input = shape});
      const Tensor x = test::image_of(*device, shape, values(shape.size(), 1));
      const Tensor residual_x = test::image_of(*device, shape, values(shape.size(), 2, 3.0));
      const Tensor dy = test::image_of(*device, shape, values(shape.size(), 3));
      test::ChannelValues w(*device, channels, 5, 1.5F);
      test::ChannelValues residual_w(*device, channels, 7, 0.5F);
      const auto run = [&](bool both) {
        const auto norm = device->layers().batch_norm({.input = shape, .after = AfterNorm::add_relu});
        EXPECT_TRUE(norm->normalises_residual());
        const auto made = [&](std::uint64_t stream) {
          return test::ChannelValues(*device, channels, stream, 1.0F);
        };
        test::ChannelValues batch = made(11), residual_batch = made(11);
        test::ChannelValues running = made(13), residual_running = made(15), gradients = made(11);
        Tensor residual = test::stale_image(*device, shape);
        Tensor y = test::stale_image(*device, shape);
        Tensor dx = test::stale_image(*device, shape);
        Tensor dresidual = test::stale_image(*device, shape);
        const RunningStatistics kept{running.span(), 0.9F};
        const RunningStatistics residual_kept{residual_running.span(), 0.9F};
        if (both) {
          norm->forward_both({x, w.span(), batch.span(), kept},
                             {residual_x, residual_w.span(), residual_batch.span(), residual_kept}, y);
        } else {
          other->forward(residual_x, nullptr, residual_w.span(), residual_batch.span(), residual_kept,
                         residual);
          norm->forward(x, &residual, w.span(), batch.span(), kept, y);
        }
        norm->backward(x, y, w.span(), batch.span(), dy, nullptr, gradients.span(), dx, &dresidual);
        return std::vector{read_image(*device, y),
                           read_image(*device, dx),
                           read_image(*device, dresidual),
                           read(*device, batch.first),
                           read(*device, batch.second),
                           read(*device, residual_batch.first),
                           read(*device, residual_batch.second),
                           read(*device, running.first),
                           read(*device, running.second),
                           read(*device, residual_running.first),
                           read(*device, residual_running.second)};
      };

      EXPECT_EQ(run(true), run(false)) << shape.text() << ", " << name(precision);
      EXPECT_FALSE(other->normalises_residual());
    }
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

/// Max pooling by its definition, of one plane.
struct PlainMaxPool {
  PlainMaxPool(const Pool2dSpec& spec, const std::vector<float>& x, const std::vector<float>& dy)
      : dx(x.size()) {
    const Shape output = output_shape(spec);
    for (std::int64_t row = 0; row < output[2]; ++row)
      for (std::int64_t column = 0; column < output[3]; ++column) {
        std::optional<std::size_t> largest;
        for (std::int64_t r = row * spec.stride - spec.padding; r < row * spec.stride - spec.padding + 3; ++r)
          for (std::int64_t c = column * spec.stride - spec.padding;
               c < column * spec.stride - spec.padding + 3; ++c) {
            if (r < 0 || r >= spec.input[2] || c < 0 || c >= spec.input[3]) continue;
            const auto here = static_cast<std::size_t>(r * spec.input[3] + c);
            if (!largest || x[here] > x[*largest] || (std::isnan(x[here]) && !std::isnan(x[*largest])))
              largest = here;
          }
        dx[*largest] += dy[y.size()];
        y.push_back(x[*largest]);
      }
  }
  std::vector<float> y, dx;
};

TEST(LoopsPooling, PoolsWindowsOfThreeByThreeAsDefined) {
  constexpr float special[] = {std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity()};
  for (const Precision precision : test::all_precisions) {
    const auto device = test::loops_device(precision);
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t padding : {0, 1}) {
        for (const auto& [height, width] : {std::pair{3, 3}, {4, 5}, {9, 8}, {6, 10}}) {
          for (const std::int64_t channels : {3, 16}) {
            SCOPED_TRACE(cat("stride ", stride, " padding ", padding, " of ", height, " x ", width, ", ",
                             channels, " channels"));
            const Pool2dSpec spec{{2, channels, height, width}, Pooling::max, 3, stride, padding};
            const auto plan = device->layers().pool2d(spec);
            const Shape output = plan->output_shape();
            // Few different values, and in some planes those that are not finite.
            std::vector<float> x = values(spec.input.size(), 1, 3.0);
            for (std::size_t i = 0; i < x.size(); ++i)
              x[i] = i / static_cast<std::size_t>(height * width) % 3 == 1 && i % 4 < 3 ? special[i % 4]
                                                                                        : std::round(x[i]);
            const auto gradient = [&](std::uint64_t stream) {  // whose sums are exact
              std::vector<float> made = values(output.size(), stream, 8.0);
              for (float& value : made) value = std::round(value);
              return made;
            };
            const std::vector<float> dy = gradient(2);
            const std::vector<float> more = gradient(3);
            Tensor y = test::stale_image(*device, output);
            Tensor dx = test::stale_image(*device, spec.input);
            Tensor dx_of_sum = test::stale_image(*device, spec.input);
            plan->forward(test::image_of(*device, spec.input, x), y);
            plan->backward(test::image_of(*device, output, dy), dx);
            ASSERT_EQ(plan->adds_gradients(), stride == 2);
            if (stride == 2)
              plan->backward_sum(test::image_of(*device, output, dy), test::image_of(*device, output, more),
                                 dx_of_sum);

            const auto plane_of = [](const std::vector<float>& of, std::size_t plane, std::size_t size) {
              const auto begin = of.begin() + static_cast<std::ptrdiff_t>(plane * size);
              return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(size));
            };
            const auto pixels = static_cast<std::size_t>(height * width);
            const auto windows = static_cast<std::size_t>(output[2] * output[3]);
            const std::vector<float> y_values = read_image(*device, y);
            const std::vector<float> dx_values = read_image(*device, dx);
            const std::vector<float> dx_of_sum_values = read_image(*device, dx_of_sum);
            for (std::size_t plane = 0; plane < static_cast<std::size_t>(2 * channels); ++plane) {
              std::vector<float> gradient_of_plane = plane_of(dy, plane, windows);
              const std::vector<float> x_of_plane = plane_of(x, plane, pixels);
              const PlainMaxPool expected(spec, x_of_plane, gradient_of_plane);
              const std::vector<float> pooled = plane_of(y_values, plane, windows);
              for (std::size_t i = 0; i < windows; ++i)
                EXPECT_TRUE(pooled[i] == expected.y[i] ||
                            (std::isnan(pooled[i]) && std::isnan(expected.y[i])));
              EXPECT_EQ(plane_of(dx_values, plane, pixels), expected.dx);
              if (stride != 2) continue;
              const std::vector<float> more_of_plane = plane_of(more, plane, windows);
              for (std::size_t i = 0; i < windows; ++i) gradient_of_plane[i] += more_of_plane[i];
              EXPECT_EQ(plane_of(dx_of_sum_values, plane, pixels),
                        PlainMaxPool(spec, x_of_plane, gradient_of_plane).dx);
            }
          }
        }
      }
    }
  }
}

TEST(LoopsPooling, RefusesAKernelWhosePlacesDoNotFitAByte) {
  const auto device = test::loops_device();
  const Tensor x = device->images().tensor({1, 1, 20, 20});
  Tensor y = device->images().tensor({1, 1, 4, 4});

  EXPECT_THROW(device->layers().pool2d({.input = {1, 1, 20, 20}, .kernel = 17})->forward(x, y),
               InternalError);
  EXPECT_THROW(device->layers().pool2d({.input = {1, 1, 20, 20}, .kernel = 2})->backward_sum(y, y, y),
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
