// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/linear_run.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::LinearRun;
using test::read;
using test::run_linear;
using test::values;

constexpr double epsilon = std::numeric_limits<float>::epsilon();

/// Both devices on the same values. Bound of a sum of n products of values below 1 in float: n · n · eps / 2
/// at worst, √n · n^½ · eps in practice; 4 · n · eps is safe for both, the errors of y (5e-7 of the
/// activation) entering as one more.
void expect_agreement(const LinearSpec& spec, int threads, int passes = 1) {
  const auto cpu = make_device({.kind = "cpu", .threads = threads});
  const auto oracle = make_device({.kind = "reference"});

  const LinearRun actual = run_linear(*cpu, spec, passes);
  const LinearRun expected = run_linear(*oracle, spec, passes);

  const auto bound = [](std::int64_t terms) { return (4.0 * epsilon + 1e-6) * static_cast<double>(terms); };
  const std::string where = cat(spec.batch, "x", spec.in, "->", spec.out, " f ",
                                static_cast<int>(spec.activation), " threads ", threads);
  EXPECT_TRUE(test::within(test::largest_difference(actual.y, expected.y), 0.0,
                           4.0 * epsilon * static_cast<double>(spec.in) + 1e-6))
      << where;
  EXPECT_TRUE(test::within(test::largest_difference(actual.dx, expected.dx), 0.0, bound(spec.out))) << where;
  EXPECT_TRUE(test::within(test::largest_difference(actual.dw, expected.dw), 0.0, bound(spec.batch * passes)))
      << where;
  EXPECT_TRUE(test::within(test::largest_difference(actual.db, expected.db), 0.0, bound(spec.batch * passes)))
      << where;
}

TEST(CpuLinear, AgreesWithTheReferenceForManyShapes) {
  for (const int threads : {1, 2}) {
    for (const std::int64_t batch : {1, 2, 7, 64, 129}) {
      for (const std::int64_t in : {1, 3, 31, 128}) {
        for (const std::int64_t out : {1, 2, 10, 17, 128}) {
          expect_agreement({.batch = batch, .in = in, .out = out, .activation = Activation::tanh}, threads);
        }
      }
    }
  }
}

TEST(CpuLinear, AgreesWithTheReferenceForEveryActivation) {
  for (const Activation f : activations_of_value) {
    for (const bool bias : {true, false}) {
      expect_agreement({.batch = 33, .in = 20, .out = 21, .bias = bias, .activation = f}, 1);
      expect_agreement({.batch = 256, .in = 9, .out = 130, .bias = bias, .activation = f},
                       2);  // own passes in parallel
    }
  }
}

TEST(CpuLinear, AgreesWithTheReferenceForTheLayersOfTheMlp) {
  expect_agreement({.batch = 64, .in = 784, .out = 128, .activation = Activation::tanh}, 2);
  expect_agreement({.batch = 64, .in = 128, .out = 10}, 2);
}

TEST(CpuLinear, AddsToTheGradientsOnlyWithAccumulate) {
  LinearSpec spec{.batch = 8, .in = 5, .out = 6, .activation = Activation::sigmoid, .accumulate = true};

  expect_agreement(spec, 1, 3);
  spec.accumulate = false;
  expect_agreement(spec, 1, 3);
}

TEST(CpuLinear, IsExactOnSmallIntegers) {
  const auto device = make_device({.kind = "cpu"});
  const auto plan = device->layers().linear({.batch = 2, .in = 3, .out = 2, .activation = Activation::relu});
  std::vector<float> stored(6);
  plan->weight_from_plain(std::vector<float>{1, 2, 3, 4, 5, 6}, stored);
  const Storage weight = test::storage_of(*device, stored);
  const Storage bias = test::storage_of(*device, {10, -100});
  const Tensor x = test::tensor_of(*device, {2, 3}, {1, 0, 2, 0, 1, 0});
  Tensor y = device->tensors().zeros({2, 2});

  plan->forward(x, {weight.span(), bias.span()}, y);

  EXPECT_EQ(read(*device, y), (std::vector<float>{17, 0, 12, 0}));
}

TEST(CpuLinear, KeepsNotANumberVisible) {
  const auto device = make_device({.kind = "cpu"});
  for (const Activation f : activations_of_value) {
    const auto plan = device->layers().linear({.batch = 1, .in = 1, .out = 40, .activation = f});
    const Storage weight = test::storage_of(*device, std::vector<float>(40, 1.0F));
    std::vector<float> biases(40, 1.0F);
    biases[3] = biases[39] = std::numeric_limits<float>::quiet_NaN();
    const Storage bias = test::storage_of(*device, biases);
    const Tensor x = test::tensor_of(*device, {1, 1}, {1});
    Tensor y = device->tensors().zeros({1, 40});

    plan->forward(x, {weight.span(), bias.span()}, y);

    const std::vector<float> result = read(*device, y);
    EXPECT_TRUE(std::isnan(result[3]) && std::isnan(result[39])) << static_cast<int>(f);
    EXPECT_EQ(std::count_if(result.begin(), result.end(), [](float v) { return std::isnan(v); }), 2);
  }
}

TEST(CpuLinear, ActivationsSaturateWithoutOverflow) {
  const auto device = make_device({.kind = "cpu"});
  const std::vector<float> inputs = {-1e30F, -100.0F, -8.0F, 0.0F, 8.0F, 100.0F, 1e30F};
  const auto width = static_cast<std::int64_t>(inputs.size());
  for (const Activation f : {Activation::tanh, Activation::sigmoid}) {
    const auto plan = device->layers().linear({.batch = 1, .in = 1, .out = width, .activation = f});
    const Storage weight = device->memory().allocate(inputs.size());
    const Storage bias = test::storage_of(*device, inputs);
    Tensor x = device->tensors().zeros({1, 1});
    Tensor y = device->tensors().zeros({1, width});

    plan->forward(x, {weight.span(), bias.span()}, y);

    const std::vector<float> result = read(*device, y);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double z = double{inputs[i]};
      const double expected = f == Activation::tanh ? std::tanh(z) : 1.0 / (1.0 + std::exp(-z));
      EXPECT_TRUE(test::within(result[i], expected, 6e-7)) << z;
    }
  }
}

TEST(CpuLinear, WeightsReturnToPlainOrderUnchanged) {
  const auto device = make_device({.kind = "cpu"});
  const auto plan = device->layers().linear({.batch = 4, .in = 7, .out = 3});
  const std::vector<float> plain = values(21, 9);
  std::vector<float> stored(static_cast<std::size_t>(plan->weight_size()));
  std::vector<float> back(21);

  plan->weight_from_plain(plain, stored);
  plan->weight_to_plain(stored, back);

  EXPECT_EQ(back, plain);
}

TEST(CpuLinear, RefusesTensorsOfOtherSizes) {
  const auto device = make_device({.kind = "cpu"});
  const auto plan = device->layers().linear({.batch = 4, .in = 7, .out = 3});
  const Storage weight = device->memory().allocate(21);
  const Storage bias = device->memory().allocate(3);
  const Tensor x = device->tensors().zeros({4, 7});
  Tensor narrow = device->tensors().zeros({4, 2});

  EXPECT_THROW(plan->forward(x, {weight.span(), bias.span()}, narrow), InternalError);
  EXPECT_THROW(device->layers().linear({.batch = 0, .in = 7, .out = 3}), InternalError);
}

}  // namespace
}  // namespace flotilla
