// SPDX-License-Identifier: Apache-2.0
// The oracle's own gradients of the operations on images against central differences, all in double.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/random.hpp"
#include "kernels/reference/image_loops.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using Values = std::vector<double>;

Values some(std::int64_t count, std::uint64_t stream) {
  Random random(1, random_data, stream);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = 2.0 * random.uniform() - 1.0;
  return values;
}

double product(const Values& a, const Values& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// `gradient` against (f(v + h) − f(v − h)) / 2h for every value of v; h and bound as in test_gradients.cpp.
void expect_gradient(const Values& gradient, Values& v, const std::function<double()>& f, const char* what) {
  constexpr double h = 1e-5;
  ASSERT_EQ(gradient.size(), v.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double middle = v[i];
    v[i] = middle + h;
    const double above = f();
    v[i] = middle - h;
    const double below = f();
    v[i] = middle;
    EXPECT_TRUE(test::within(gradient[i], (above - below) / (2.0 * h), 1e-7)) << what << " " << i;
  }
}

TEST(ReferenceConv2d, GradientsAreCentralDifferences) {
  for (const Conv2dSpec& s :
       {Conv2dSpec{.input = {2, 2, 5, 4}, .out_channels = 3, .kernel = 3, .stride = 2, .padding = 1},
        Conv2dSpec{.input = {1, 4, 3, 3}, .out_channels = 6, .kernel = 2, .groups = 2},
        Conv2dSpec{.input = {2, 3, 3, 2}, .out_channels = 2, .kernel = 1, .stride = 2}}) {
    const std::int64_t outputs = output_shape(s).size();
    Values x = some(s.input.size(), 1);
    Values w = some(s.out_channels * s.input[1] / s.groups * s.kernel * s.kernel, 2);
    Values b = some(s.out_channels, 3);
    const Values dy = some(outputs, 4);
    Values y(static_cast<std::size_t>(outputs));
    const auto objective = [&] {
      reference::conv2d_forward<double>(s, x, w, b, y);
      return product(y, dy);
    };
    Values dx(x.size());
    Values dw(w.size());
    Values db(b.size());

    reference::conv2d_backward_data<double>(s, dy, w, dx);
    reference::conv2d_backward_weights<double>(s, x, dy, dw, db);

    expect_gradient(dx, x, objective, "dx");
    expect_gradient(dw, w, objective, "dw");
    expect_gradient(db, b, objective, "db");
  }
}

TEST(ReferenceBatchNorm, GradientsAreCentralDifferences) {
  for (const AfterNorm after : {AfterNorm::nothing, AfterNorm::relu, AfterNorm::add_relu}) {
    const BatchNormSpec s{.input = {2, 3, 2, 3}, .after = after};
    const bool adds = after == AfterNorm::add_relu;
    Values x = some(s.input.size(), 1);
    Values residual = adds ? some(s.input.size(), 2) : Values();
    Values scale = some(3, 3);
    Values shift = some(3, 4);
    Values mean(3);
    Values variance(3);
    const Values dy = some(s.input.size(), 5);
    const Values more = adds ? some(s.input.size(), 6) : Values(dy.size(), 0.0);
    Values y(x.size());
    const auto objective = [&] {
      reference::batch_statistics<double>(s, x, mean, variance);
      reference::batch_norm_forward<double>(s, x, residual, {scale, shift, mean, variance}, y);
      return product(y, dy) + product(y, more);
    };
    Values dx(x.size());
    Values dresidual(residual.size());
    Values dscale(3);
    Values dshift(3);

    objective();
    const reference::Channels<double> of{scale, shift, mean, variance};
    reference::batch_norm_backward_sums<double>(s, x, y, of, dy, adds ? more : Values(), dresidual, dscale,
                                                dshift);
    reference::batch_norm_backward_data<double>(s, x, of, dscale, dshift, 12.0, adds ? dresidual : dy, dx);

    // The statistics are recomputed inside: dx is that of the whole function.
    expect_gradient(dx, x, objective, "dx");
    expect_gradient(dresidual, residual, objective, "dresidual");
    expect_gradient(dscale, scale, objective, "dscale");
    expect_gradient(dshift, shift, objective, "dshift");
  }
}

TEST(ReferenceBatchNorm, MatchesAHandComputedChannel) {
  // 1, 3, 5, 7: mean 4, biased variance 5.
  const BatchNormSpec s{.input = {2, 1, 1, 2}, .epsilon = 11.0F};
  const Values x = {1, 3, 5, 7};
  Values mean(1);
  Values variance(1);
  Values y(4);

  reference::batch_statistics<double>(s, x, mean, variance);
  reference::batch_norm_forward<double>(s, x, Values(), {Values{8}, Values{1}, mean, variance}, y);

  EXPECT_EQ(mean[0], 4.0);
  EXPECT_EQ(variance[0], 5.0);
  EXPECT_EQ(y, (Values{-5, -1, 3, 7}));
}

TEST(ReferencePool2d, GradientsAreCentralDifferences) {
  for (const Pooling kind : {Pooling::max, Pooling::average_including_padding,
                             Pooling::average_excluding_padding, Pooling::global_average}) {
    const Pool2dSpec s{{2, 2, 5, 4}, kind, 3, 2, 1};
    const std::int64_t outputs = output_shape(s).size();
    Values x = some(s.input.size(), 1);
    const Values dy = some(outputs, 2);
    Values y(static_cast<std::size_t>(outputs));
    std::vector<std::size_t> chosen(y.size());
    const auto objective = [&] {
      reference::pool2d_forward<double>(s, x, y, chosen);
      return product(y, dy);
    };
    Values dx(x.size());

    objective();
    reference::pool2d_backward<double>(s, dy, chosen, dx);

    expect_gradient(dx, x, objective, "dx");
  }
}

TEST(ReferencePool2d, AveragesDifferInThePaddingOnly) {
  const Values x = {4, 8, 12, 16};
  Values y(1);
  std::vector<std::size_t> chosen(1);

  reference::pool2d_forward<double>({{1, 1, 2, 2}, Pooling::average_including_padding, 3, 2, 1}, x, y,
                                    chosen);
  EXPECT_TRUE(test::within_double_roundings(y[0], 40.0 / 9.0, 4));
  reference::pool2d_forward<double>({{1, 1, 2, 2}, Pooling::average_excluding_padding, 3, 2, 1}, x, y,
                                    chosen);
  EXPECT_TRUE(test::within_double_roundings(y[0], 10.0, 4));
}

}  // namespace
}  // namespace flotilla
