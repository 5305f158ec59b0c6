// SPDX-License-Identifier: Apache-2.0
// The oracle's own gradients against central differences, all in double.
#include <gtest/gtest.h>

#include "kernels/reference/image_loops.hpp"
#include "kernels/reference/loops.hpp"
#include "tests/kernels/central_differences.hpp"

namespace flotilla {
namespace {

using test::product;
using test::random_doubles;
using Values = test::Doubles;

void expect_near(const Values& actual, const Values& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_TRUE(test::within(actual[i], expected[i], 1e-8)) << what << " " << i;
}

void expect_gradient(const Values& gradient, Values& v, const std::function<double()>& f, const char* what) {
  test::expect_central_differences(gradient, v, f, 1e-8, what);
}

/// As expect_gradient(), with a wider bound for sums of more products.
void expect_image_gradient(const Values& gradient, Values& v, const std::function<double()>& f,
                           const char* what) {
  test::expect_central_differences(gradient, v, f, 1e-7, what);
}

TEST(ReferenceLinear, GradientsAreCentralDifferences) {
  for (const Activation f : activations_of_value) {
    const LinearSpec spec{.batch = 3, .in = 4, .out = 5, .activation = f};
    Values x = random_doubles(12, 1);
    Values w = random_doubles(20, 2);
    Values b = random_doubles(5, 3);
    const Values weights_of_y = random_doubles(15, 4);
    Values y(15);
    // A scalar function of everything: Σ c · y.
    const auto objective = [&] {
      reference::linear_forward<double>(spec, x, w, b, y);
      return product(weights_of_y, y);
    };
    Values dy = weights_of_y;
    Values dw(20);
    Values db(5);
    Values dx(12);

    objective();
    reference::linear_backward<double>(spec, x, y, w, dy, dw, db, dx);

    expect_gradient(dx, x, objective, "dx");
    expect_gradient(dw, w, objective, "dw");
    expect_gradient(db, b, objective, "db");
  }
}

TEST(ReferenceElementwise, GradientsAreCentralDifferences) {
  for (const Activation f : all_activations) {
    Values x = random_doubles(40, 1);
    for (double& value : x) value *= 5.0;
    const Values weights_of_y = random_doubles(40, 2);
    Values y(40);
    const auto objective = [&] {
      reference::elementwise_forward<double>(f, x, y);
      return product(weights_of_y, y);
    };
    Values dx(40);

    reference::elementwise_backward<double>(f, x, weights_of_y, dx);

    expect_gradient(dx, x, objective, "dx");
  }
}

TEST(ReferenceElementwise, HasTheValuesOfTorch) {
  const Values x = {-3.0, -0.5, 0.0, 1.0, 2.5};
  Values y(5);

  reference::elementwise_forward<double>(Activation::gelu, x, y);
  expect_near(y, {-0.00404969409489, -0.15426876936299, 0.0, 0.84134474606854, 2.48447583668556}, "gelu");
  reference::elementwise_forward<double>(Activation::silu, x, y);
  expect_near(y, {-0.14227761953270, -0.18877033439907, 0.0, 0.73105857863000, 2.31035454994689}, "silu");
}

TEST(ReferenceLayerNorm, GradientsAreCentralDifferences) {
  const LayerNormSpec spec{.rows = 3, .columns = 5};
  Values x = random_doubles(15, 1);
  Values scale = random_doubles(5, 2);
  Values shift = random_doubles(5, 3);
  const Values weights_of_y = random_doubles(15, 4);
  Values y(15);
  const auto objective = [&] {
    reference::layer_norm_forward<double>(spec, x, scale, shift, y);
    return product(weights_of_y, y);
  };
  Values dx(15);
  Values dscale(5);
  Values dshift(5);

  reference::layer_norm_backward<double>(spec, x, scale, weights_of_y, dscale, dshift, dx);

  expect_gradient(dx, x, objective, "dx");
  expect_gradient(dscale, scale, objective, "dscale");
  expect_gradient(dshift, shift, objective, "dshift");
}

TEST(ReferenceLayerNorm, MatchesAHandComputedRow) {
  // 1, 3, 5, 7: mean 4, biased variance 5; with ε = 11 the divisor is 4.
  const Values x = {1, 3, 5, 7};
  Values y(4);

  reference::layer_norm_forward<double>({.rows = 1, .columns = 4, .epsilon = 11.0F}, x, Values{8, 8, 8, 4},
                                        Values{1, 0, 0, 0}, y);

  expect_near(y, {-5.0, -2.0, 2.0, 3.0}, "y");
}

void expect_softmax_gradient(const SoftmaxLossSpec& spec, const Targets& targets) {
  Values logits = random_doubles(spec.batch * spec.classes, 5);
  const auto objective = [&] {
    Values sums(loss_sums);
    reference::softmax_loss_forward<double>(spec, logits, targets, sums);
    return 0.5 * sums[sum_loss];
  };
  Values gradient(logits.size());

  reference::softmax_loss_backward<double>(spec, logits, targets, 0.5, gradient);

  expect_gradient(gradient, logits, objective, "dlogits");
}

TEST(ReferenceSoftmaxLoss, GradientsAreCentralDifferences) {
  const std::vector<std::int32_t> labels = {0, 5, 2, 3};
  for (const float smoothing : {0.0F, 0.1F})
    expect_softmax_gradient({.batch = 4, .classes = 6, .label_smoothing = smoothing},
                            {.labels = labels, .valid = 3});
}

TEST(ReferenceSoftmaxLoss, GradientsOfMixedLabelsAreCentralDifferences) {
  const std::vector<std::int32_t> labels = {0, 5, 2, 3};
  const std::vector<std::int32_t> others = {1, 0, 2, 3};  // that of row 2 is its own
  expect_softmax_gradient({.batch = 4, .classes = 6, .label_smoothing = 0.1F},
                          {.labels = labels, .valid = 3, .other_labels = others, .other_share = 0.375F});
}

TEST(ReferenceSoftmaxLoss, MatchesAHandComputedRow) {
  // logits ln 1, ln 2, ln 5: probabilities 1/8, 2/8, 5/8.
  const Values logits = {0.0, std::log(2.0), std::log(5.0)};
  const std::vector<std::int32_t> labels = {1};
  Values sums(loss_sums);
  Values gradient(3);

  reference::softmax_loss_forward<double>({1, 3, 0.0F}, logits, {labels, 1}, sums);
  reference::softmax_loss_backward<double>({1, 3, 0.0F}, logits, {labels, 1}, 8.0, gradient);

  EXPECT_TRUE(test::within(sums[sum_loss], std::log(4.0), 1e-12));
  EXPECT_EQ(sums[sum_top1], 0.0);
  EXPECT_EQ(sums[sum_top5], 1.0);
  expect_near(gradient, {1.0, -6.0, 5.0}, "dlogits");
}

TEST(ReferenceConv2d, GradientsAreCentralDifferences) {
  for (const Conv2dSpec& s :
       {Conv2dSpec{.input = {2, 2, 5, 4}, .out_channels = 3, .kernel = 3, .stride = 2, .padding = 1},
        Conv2dSpec{.input = {1, 4, 3, 3}, .out_channels = 6, .kernel = 2, .groups = 2},
        Conv2dSpec{.input = {2, 3, 3, 2}, .out_channels = 2, .kernel = 1, .stride = 2}}) {
    const std::int64_t outputs = output_shape(s).size();
    Values x = random_doubles(s.input.size(), 1);
    Values w = random_doubles(s.out_channels * s.input[1] / s.groups * s.kernel * s.kernel, 2);
    Values b = random_doubles(s.out_channels, 3);
    const Values dy = random_doubles(outputs, 4);
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

    expect_image_gradient(dx, x, objective, "dx");
    expect_image_gradient(dw, w, objective, "dw");
    expect_image_gradient(db, b, objective, "db");
  }
}

TEST(ReferenceBatchNorm, GradientsAreCentralDifferences) {
  for (const AfterNorm after : {AfterNorm::nothing, AfterNorm::relu, AfterNorm::add_relu}) {
    const BatchNormSpec s{.input = {2, 3, 2, 3}, .after = after};
    const bool adds = after == AfterNorm::add_relu;
    Values x = random_doubles(s.input.size(), 1);
    Values residual = adds ? random_doubles(s.input.size(), 2) : Values();
    Values scale = random_doubles(3, 3);
    Values shift = random_doubles(3, 4);
    Values mean(3);
    Values variance(3);
    const Values dy = random_doubles(s.input.size(), 5);
    const Values more = adds ? random_doubles(s.input.size(), 6) : Values(dy.size(), 0.0);
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
    expect_image_gradient(dx, x, objective, "dx");
    expect_image_gradient(dresidual, residual, objective, "dresidual");
    expect_image_gradient(dscale, scale, objective, "dscale");
    expect_image_gradient(dshift, shift, objective, "dshift");
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
    Values x = random_doubles(s.input.size(), 1);
    const Values dy = random_doubles(outputs, 2);
    Values y(static_cast<std::size_t>(outputs));
    std::vector<std::size_t> chosen(y.size());
    const auto objective = [&] {
      reference::pool2d_forward<double>(s, x, y, chosen);
      return product(y, dy);
    };
    Values dx(x.size());

    objective();
    reference::pool2d_backward<double>(s, dy, chosen, dx);

    expect_image_gradient(dx, x, objective, "dx");
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
