// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/error.hpp"
#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/kernels/linear_run.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

/// Half of the spacing of values around the largest one, relative.
double rounding(Precision precision) {
  if (precision == Precision::float32) return 0.0;
  return precision == Precision::float16 ? 0x1p-11 : 0x1p-8;
}

double largest(const std::vector<float>& values) {
  double most = 0.0;
  for (const float value : values) most = std::max(most, std::abs(double{value}));
  return most;
}

/// If a product has no epilogue its result p is rounded before the bias b is added, and the sum is rounded
/// again: y is off by u |p| + 2 u |y| at most, with |p| ≤ |y| + |b| and |b| ≤ 1. Every GPU has one for sizes
/// that are multiples of eight.
double of_two_roundings(const LinearSpec& spec, Precision precision, const std::vector<float>& y) {
  if (!spec.bias || (spec.in % 8 == 0 && spec.out % 8 == 0)) return 0.0;
  return rounding(precision) * (3.0 * largest(y) + 1.0);
}

/// @param inexact What the values of the activation may differ by, and 1 − y² with them.
void expect_agreement(Device& gpu, const LinearSpec& spec, int passes, double inexact) {
  const Precision precision = gpu.info().precision;
  SCOPED_TRACE(cat(spec.batch, "x", spec.in, " -> ", spec.out, " f ", static_cast<int>(spec.activation),
                   spec.bias ? " with bias, " : ", ", name(precision)));
  const auto oracle = make_device({.kind = "reference", .precision = precision});

  const test::LinearRun actual = test::run_linear(gpu, spec, passes, test::exact_values);
  const test::LinearRun expected = test::run_linear(*oracle, spec, passes, test::exact_values);

  EXPECT_TRUE(test::within(test::largest_difference(actual.y, expected.y), 0.0,
                           inexact + of_two_roundings(spec, precision, expected.y)));
  EXPECT_TRUE(test::within(test::largest_difference(actual.dx, expected.dx), 0.0,
                           inexact * static_cast<double>(spec.out)));
  // The reference rounds this gradient as convolutions' are; cuBLASLt writes float32.
  EXPECT_TRUE(test::within(
      test::largest_difference(actual.dw, expected.dw), 0.0,
      passes * rounding(precision) * largest(expected.dw) + inexact * static_cast<double>(spec.batch)));
  EXPECT_TRUE(test::within(test::largest_difference(actual.db, expected.db), 0.0,
                           inexact * static_cast<double>(spec.batch)));
}

class CudaLinear : public test::OnGpu {};

TEST_F(CudaLinear, GivesTheBitsOfTheReferenceForExactValues) {
  for (const Precision precision : test::precisions) {
    const auto gpu = test::gpu({.precision = precision});
    for (const std::int64_t batch : {1, 6}) {
      for (const std::int64_t in : {1, 13, 64}) {
        for (const std::int64_t out : {1, 10, 32, 64}) {
          for (const Activation f : {Activation::identity, Activation::relu}) {
            expect_agreement(*gpu, {.batch = batch, .in = in, .out = out, .bias = out != 32, .activation = f},
                             1, 0.0);
          }
        }
      }
    }
  }
}

TEST_F(CudaLinear, AddsToGradientsWhereItAccumulates) {
  for (const Precision precision : test::precisions) {
    const auto gpu = test::gpu({.precision = precision});
    expect_agreement(
        *gpu, {.batch = 5, .in = 17, .out = 9, .activation = Activation::relu, .accumulate = true}, 3, 0.0);
  }
}

TEST_F(CudaLinear, AgreesWithTheReferenceForSmoothActivations) {
  for (const Precision precision : test::precisions) {
    const auto gpu = test::gpu({.precision = precision});
    // Values up to 1: the two may round the function's value to neighbours, slopes are then off by twice
    // that.
    const double inexact = 4.0 * std::max(rounding(precision), 0x1p-22);
    for (const Activation f : {Activation::tanh, Activation::sigmoid}) {
      expect_agreement(*gpu, {.batch = 7, .in = 33, .out = 20, .activation = f}, 1, inexact);
      expect_agreement(*gpu, {.batch = 7, .in = 33, .out = 20, .bias = false, .activation = f}, 1, inexact);
    }
  }
}

}  // namespace
}  // namespace flotilla
