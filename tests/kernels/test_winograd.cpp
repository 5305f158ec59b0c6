// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "kernels/reference/image_loops.hpp"
#include "tests/kernels/convolutions.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::ConvRun;
using test::plain_size;
using test::text;
using test::values;

std::unique_ptr<Device> cpu(bool winograd, int threads = 2) {
  return make_device({.kind = "cpu",
                      .threads = threads,
                      .winograd = winograd ? WinogradUse::wherever_possible : WinogradUse::never});
}

/// A convolution in float64, of the values that test::run_conv2d() takes.
struct Exact {
  explicit Exact(const Conv2dSpec& spec)
      : y(static_cast<std::size_t>(output_shape(spec).size())),
        dx(static_cast<std::size_t>(spec.input.size())),
        dw(static_cast<std::size_t>(plain_size(spec))),
        db(static_cast<std::size_t>(spec.bias ? spec.out_channels : 0)) {
    const auto doubles = [](std::int64_t count, std::uint64_t stream) {
      const std::vector<float> floats = values(count, stream);
      return std::vector<double>(floats.begin(), floats.end());
    };
    const std::vector<double> x = doubles(spec.input.size(), 1);
    const std::vector<double> w = doubles(plain_size(spec), 2);
    const std::vector<double> b = doubles(static_cast<std::int64_t>(db.size()), 3);
    const std::vector<double> dy = doubles(static_cast<std::int64_t>(y.size()), 4);
    using In = std::span<const double>;
    reference::conv2d_forward<double>(spec, In(x), In(w), In(b), y);
    reference::conv2d_backward_data<double>(spec, In(dy), In(w), dx);
    reference::conv2d_backward_weights<double>(spec, In(x), In(dy), dw, db);
  }
  std::vector<double> y, dx, dw, db;
};

/// The root of the mean square of actual − exact, divided by that of exact.
double relative_error(const std::vector<float>& actual, const std::vector<double>& exact) {
  double squares = 0.0;
  double all = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    squares += (actual[i] - exact[i]) * (actual[i] - exact[i]);
    all += exact[i] * exact[i];
  }
  return std::sqrt(squares / all);
}

/// Rounding errors of sums of some hundred products that are drawn, not chosen, through transforms that
/// enlarge them some ten times: far above what is seen, far below a wrong term of 16 channels.
constexpr double largest_error = 1e-5;

TEST(Winograd, AgreesWithFloat64ForOddSizesPaddingsAndChannels) {
  for (const std::int64_t padding : {0, 1, 2}) {
    for (const auto& [rows, columns] : {std::pair{3, 3}, {4, 5}, {7, 6}, {9, 13}, {17, 8}}) {
      for (const auto& [in, out] : {std::pair{16, 48}, {48, 16}, {32, 80}}) {
        const Conv2dSpec spec{.input = {3, in, rows, columns},
                              .out_channels = out,
                              .kernel = 3,
                              .padding = padding,
                              .bias = rows == 7};
        SCOPED_TRACE(text(spec));
        const auto device = cpu(true, columns % 3 + 1);
        const Exact exact(spec);

        const ConvRun run = test::run_conv2d(*device, spec);

        EXPECT_TRUE(test::within(relative_error(run.y, exact.y), 0.0, largest_error));
        EXPECT_TRUE(test::within(relative_error(run.dx, exact.dx), 0.0, largest_error));
        EXPECT_TRUE(test::within(relative_error(run.dw, exact.dw), 0.0, largest_error));
        if (spec.bias) {
          EXPECT_TRUE(test::within(relative_error(run.db, exact.db), 0.0, largest_error));
        }
      }
    }
  }
}

TEST(Winograd, RoundsAtMostTwentyTimesAsMuchAsDirectConvolutions) {
  for (const auto& [channels, side] : {std::pair{64, 20}, {128, 14}, {256, 14}, {512, 7}}) {
    const Conv2dSpec spec{.input = {1, channels, side, side}, .out_channels = 64, .kernel = 3, .padding = 1};
    SCOPED_TRACE(text(spec));
    const Exact exact(spec);

    const ConvRun direct = test::run_conv2d(*cpu(false), spec);
    const ConvRun fast = test::run_conv2d(*cpu(true), spec);

    for (const auto& [name, of, truth] : {std::tuple{"y", &ConvRun::y, &Exact::y},
                                          {"dx", &ConvRun::dx, &Exact::dx},
                                          {"dw", &ConvRun::dw, &Exact::dw}}) {
      const double ratio = relative_error(fast.*of, exact.*truth) / relative_error(direct.*of, exact.*truth);
      EXPECT_TRUE(test::within(ratio, 0.0, 20.0)) << name;
      RecordProperty(cat(name, channels), cat(ratio));
    }
  }
}

TEST(Winograd, GivesTheSameBitsWithAnyNumberOfThreads) {
  const Conv2dSpec spec{
      .input = {5, 32, 21, 19}, .out_channels = 64, .kernel = 3, .padding = 1, .bias = true};
  const ConvRun one = test::run_conv2d(*cpu(true, 1), spec);
  for (const int threads : {2, 3, 7}) {
    const ConvRun more = test::run_conv2d(*cpu(true, threads), spec);
    EXPECT_EQ(more.y, one.y) << threads;
    EXPECT_EQ(more.dx, one.dx) << threads;
    EXPECT_EQ(more.dw, one.dw) << threads;
    EXPECT_EQ(more.db, one.db) << threads;
  }
}

TEST(Winograd, AddsTheGradientsOfMicroSteps) {
  const Conv2dSpec spec{.input = {2, 32, 9, 9},
                        .out_channels = 32,
                        .kernel = 3,
                        .padding = 1,
                        .bias = true,
                        .accumulate = true};
  const Exact exact(spec);

  const ConvRun run = test::run_conv2d(*cpu(true), spec, 3);

  const auto thrice = [](std::vector<double> values) {
    for (double& value : values) value *= 3.0;
    return values;
  };
  EXPECT_TRUE(test::within(relative_error(run.dw, thrice(exact.dw)), 0.0, largest_error));
  EXPECT_TRUE(test::within(relative_error(run.db, thrice(exact.db)), 0.0, largest_error));
}

}  // namespace
}  // namespace flotilla
