// SPDX-License-Identifier: Apache-2.0
// The oracle's own gradients against central differences, all in double.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/random.hpp"
#include "kernels/reference/loops.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using Values = std::vector<double>;

Values some(std::size_t count, std::uint64_t stream) {
  Random random(1, random_data, stream);
  Values values(count);
  for (double& value : values) value = 2.0 * random.uniform() - 1.0;
  return values;
}

/// (f(v + h) − f(v − h)) / 2h for every value of v. With h = 1e-5 the error is about h² f''' = 1e-10 and
/// eps / h = 2e-11.
Values central_differences(Values& v, const std::function<double()>& f) {
  constexpr double h = 1e-5;
  Values slopes;
  for (double& value : v) {
    const double middle = value;
    value = middle + h;
    const double above = f();
    value = middle - h;
    const double below = f();
    value = middle;
    slopes.push_back((above - below) / (2.0 * h));
  }
  return slopes;
}

void expect_near(const Values& actual, const Values& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_TRUE(test::within(actual[i], expected[i], 1e-8)) << what << " " << i;
}

TEST(ReferenceLinear, GradientsAreCentralDifferences) {
  for (const Activation f : activations_of_value) {
    const LinearSpec spec{.batch = 3, .in = 4, .out = 5, .activation = f};
    Values x = some(12, 1);
    Values w = some(20, 2);
    Values b = some(5, 3);
    const Values weights_of_y = some(15, 4);
    Values y(15);
    // A scalar function of everything: Σ c · y.
    const auto objective = [&] {
      reference::linear_forward<double>(spec, x, w, b, y);
      double sum = 0.0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += weights_of_y[i] * y[i];
      return sum;
    };
    Values dy = weights_of_y;
    Values dw(20);
    Values db(5);
    Values dx(12);

    objective();
    reference::linear_backward<double>(spec, x, y, w, dy, dw, db, dx);

    expect_near(dx, central_differences(x, objective), "dx");
    expect_near(dw, central_differences(w, objective), "dw");
    expect_near(db, central_differences(b, objective), "db");
  }
}

TEST(ReferenceElementwise, GradientsAreCentralDifferences) {
  for (const Activation f : all_activations) {
    Values x = some(40, 1);
    for (double& value : x) value *= 5.0;
    const Values weights_of_y = some(40, 2);
    Values y(40);
    const auto objective = [&] {
      reference::elementwise_forward<double>(f, x, y);
      double sum = 0.0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += weights_of_y[i] * y[i];
      return sum;
    };
    Values dx(40);

    reference::elementwise_backward<double>(f, x, weights_of_y, dx);

    expect_near(dx, central_differences(x, objective), "dx");
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
  Values x = some(15, 1);
  Values scale = some(5, 2);
  Values shift = some(5, 3);
  const Values weights_of_y = some(15, 4);
  Values y(15);
  const auto objective = [&] {
    reference::layer_norm_forward<double>(spec, x, scale, shift, y);
    double sum = 0.0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += weights_of_y[i] * y[i];
    return sum;
  };
  Values dx(15);
  Values dscale(5);
  Values dshift(5);

  reference::layer_norm_backward<double>(spec, x, scale, weights_of_y, dscale, dshift, dx);

  expect_near(dx, central_differences(x, objective), "dx");
  expect_near(dscale, central_differences(scale, objective), "dscale");
  expect_near(dshift, central_differences(shift, objective), "dshift");
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
  Values logits = some(static_cast<std::size_t>(spec.batch * spec.classes), 5);
  const auto objective = [&] {
    Values sums(loss_sums);
    reference::softmax_loss_forward<double>(spec, logits, targets, sums);
    return 0.5 * sums[sum_loss];
  };
  Values gradient(logits.size());

  reference::softmax_loss_backward<double>(spec, logits, targets, 0.5, gradient);

  expect_near(gradient, central_differences(logits, objective), "dlogits");
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

}  // namespace
}  // namespace flotilla
