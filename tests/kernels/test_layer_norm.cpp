// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "kernels/onednn/native_precisions.hpp"
#include "tests/kernels/layer_norm_run.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::largest_difference;
using test::run_layer_norm;

/// @param roundings by which the devices may be apart: of terms of order 1, or of the largest value
void expect_agreement(const LayerNormSpec& spec, Precision precision, double rounding, int roundings) {
  const auto oracle = make_device({.kind = "reference", .precision = precision});
  const auto expected = run_layer_norm(*oracle, spec);
  for (const int threads : {1, 2}) {
    const auto cpu = make_device({.kind = "cpu", .threads = threads, .precision = precision});
    const auto found = run_layer_norm(*cpu, spec);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double largest = largest_difference(expected[i], std::vector<float>(expected[i].size(), 0.0F));
      EXPECT_TRUE(test::within(found[i], expected[i], roundings * rounding * std::max(1.0, largest)))
          << i << " of " << spec.rows << " x " << spec.columns << ", threads " << threads;
    }
  }
}

// One rounding for each term of the longest sum, which is of one row, or over all rows.
TEST(CpuLayerNorm, AgreesWithTheReferenceForManyShapes) {
  for (const LayerNormSpec& spec :
       {LayerNormSpec{.rows = 1, .columns = 2}, LayerNormSpec{.rows = 7, .columns = 33},
        LayerNormSpec{.rows = 64, .columns = 128, .accumulate = true},
        LayerNormSpec{.rows = 50, .columns = 1000}})
    expect_agreement(spec, Precision::float32, test::float_rounding,
                     8 + static_cast<int>(std::max(spec.rows, spec.columns)));
}

// Results are rounded to neighbours, two roundings apart at most.
TEST(CpuLayerNorm, IsAsCloseToTheReferenceAsARoundingInBfloat16) {
  if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
  expect_agreement({.rows = 16, .columns = 40}, Precision::bfloat16, 0x1p-8, 4);
}

TEST(CpuLayerNorm, GivesTheSameBitsForAnyNumberOfThreads) {
  const LayerNormSpec spec{.rows = 90, .columns = 500};
  const auto one = make_device({.kind = "cpu", .threads = 1});
  const auto two = make_device({.kind = "cpu", .threads = 2});

  EXPECT_EQ(run_layer_norm(*one, spec), run_layer_norm(*two, spec));
}

TEST(LayerNorm, RefusesTensorsOfOtherSizes) {
  for (const std::string kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const auto plan = device->layers().layer_norm({.rows = 2, .columns = 3});
    Tensor wrong = device->tensors().zeros({2, 4});
    const Storage pair = device->memory().allocate(6);
    const ScaleShift w{pair.span().subspan(0, 3), pair.span().subspan(3, 3)};

    EXPECT_THROW(plan->forward(wrong, w, wrong), InternalError) << kind;
    EXPECT_THROW(device->layers().layer_norm({.rows = 0, .columns = 3}), InternalError) << kind;
  }
}

}  // namespace
}  // namespace flotilla
