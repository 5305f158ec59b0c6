// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/native_precisions.hpp"
#include "kernels/error.hpp"
#include "tests/kernels/layer_norm_run.hpp"
#include "tests/kernels/tested_devices.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::run_layer_norm;

/// @param bound of terms of order 1; where values are larger, of the largest as 1
void expect_agreement(Device& device, const LayerNormSpec& spec, double bound) {
  const auto oracle = make_device({.kind = "reference", .precision = device.info().precision});
  const auto found = run_layer_norm(device, spec);
  const auto expected = run_layer_norm(*oracle, spec);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double largest =
        test::largest_difference(expected[i], std::vector<float>(expected[i].size(), 0.0F));
    EXPECT_TRUE(test::within(found[i], expected[i], bound * std::max(1.0, largest)))
        << i << " of " << spec.rows << " x " << spec.columns;
  }
}

using LayerNormOf = test::EachDevice;
INSTANTIATE_TEST_SUITE_P(Devices, LayerNormOf, testing::ValuesIn(test::tested_devices_and_reference()),
                         test::name_of_device);

// One rounding for each term of the longest sum, which is of one row, or over all rows. Results in halves are
// rounded to neighbours, two roundings apart at most.
TEST_P(LayerNormOf, AgreesWithTheReferenceForManyShapes) {
  for (const LayerNormSpec& spec :
       {LayerNormSpec{.rows = 1, .columns = 2}, LayerNormSpec{.rows = 7, .columns = 33},
        LayerNormSpec{.rows = 64, .columns = 128, .accumulate = true},
        LayerNormSpec{.rows = 20, .columns = 304, .accumulate = true},
        LayerNormSpec{.rows = 50, .columns = 1000}}) {
    const auto terms = static_cast<double>(8 + std::max(spec.rows, spec.columns));
    expect_agreement(*device, spec, terms * test::float_rounding + 2.0 * test::stored_apart(precision()));
  }
}

TEST(CpuLayerNorm, IsAsCloseToTheReferenceAsARoundingInBfloat16) {
  if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
  for (const int threads : {1, 2})
    expect_agreement(*make_device({.kind = "cpu", .threads = threads, .precision = Precision::bfloat16}),
                     {.rows = 16, .columns = 40}, 4.0 * 0x1p-8);
}

TEST_P(LayerNormOf, GivesTheSameBitsInAnyOrder) {
  for (const LayerNormSpec& spec :
       {LayerNormSpec{.rows = 90, .columns = 500}, LayerNormSpec{.rows = 20, .columns = 304}})
    expect_same_bits([&](Device& on) { return run_layer_norm(on, spec); });
}

TEST_P(LayerNormOf, RefusesTensorsOfOtherSizes) {
  const auto plan = device->layers().layer_norm({.rows = 2, .columns = 3});
  Tensor wrong = device->tensors().zeros({2, 4});
  const Storage pair = device->memory().allocate(6);
  const ScaleShift w{pair.span().subspan(0, 3), pair.span().subspan(3, 3)};

  EXPECT_THROW(plan->forward(wrong, w, wrong), InternalError);
  EXPECT_THROW(device->layers().layer_norm({.rows = 0, .columns = 3}), InternalError);
}

}  // namespace
}  // namespace flotilla
