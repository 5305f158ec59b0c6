// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/bfloat16_images.hpp"
#include "tests/kernels/convolutions.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::cpu_with;
using test::halves;
using test::image_of;
using test::integers;
using test::make_oracle;
using test::plain_size;
using test::read;
using test::text;
using test::values;

using CpuBfloat16Conv2d = test::Bfloat16Images;

/// @param make the values, of which the weights get details that their copies in bfloat16 do not have
test::ConvRun run(Device& device, const Conv2dSpec& spec, const test::Values& make, int passes) {
  return test::run_conv2d(device, spec, passes, [&](std::int64_t count, std::uint64_t stream) {
    std::vector<float> made = make(count, stream);
    if (stream == 2)
      for (float& value : made) value *= 1.0F + 0x1p-12F;
    return made;
  });
}

void expect_exact(const Conv2dSpec& spec, int threads, int passes = 1) {
  SCOPED_TRACE(cat(text(spec), ", threads ", threads));
  const test::ConvRun actual = run(*cpu_with(threads), spec, integers, passes);
  const test::ConvRun expected = run(*make_oracle(), spec, integers, passes);

  EXPECT_EQ(actual.y, expected.y);
  EXPECT_EQ(actual.dx, expected.dx);
  EXPECT_EQ(actual.dw, expected.dw);
  EXPECT_EQ(actual.db, expected.db);
}

// The sums are exact, so that rounding them once gives the bits of the reference device.
TEST_F(CpuBfloat16Conv2d, IsExactOnIntegersForManyShapes) {
  for (const std::int64_t in : {3, 16, 17}) {
    for (const std::int64_t out : {1, 16, 40}) {
      for (const std::int64_t kernel : {1, 3}) {
        for (const std::int64_t stride : {1, 2}) {
          for (const std::int64_t padding : {std::int64_t{0}, kernel / 2}) {
            expect_exact({.input = {3, in, 7, 6},
                          .out_channels = out,
                          .kernel = kernel,
                          .stride = stride,
                          .padding = padding,
                          .bias = out == 40 && in == 16},
                         in == 16 ? 1 : 2);
          }
        }
      }
    }
  }
}

TEST_F(CpuBfloat16Conv2d, IsExactOnIntegersForTheLayersOfResNets) {
  expect_exact({.input = {2, 3, 33, 31},
                .out_channels = 64,
                .kernel = 7,
                .stride = 2,
                .padding = 3,
                .input_gradient = false},
               2);
  expect_exact({.input = {1, 64, 14, 14}, .out_channels = 64, .kernel = 3, .padding = 1}, 2);
  expect_exact({.input = {2, 64, 9, 9}, .out_channels = 32, .kernel = 3, .stride = 2, .padding = 1}, 1);
  expect_exact({.input = {2, 64, 7, 7}, .out_channels = 64, .kernel = 3, .padding = 1}, 2);
  expect_exact({.input = {2, 32, 8, 8}, .out_channels = 128, .kernel = 1}, 2);
  expect_exact({.input = {2, 64, 8, 8}, .out_channels = 96, .kernel = 1, .stride = 2}, 2);
  expect_exact({.input = {2, 64, 9, 9}, .out_channels = 96, .kernel = 1, .stride = 2, .padding = 1}, 2);
  expect_exact({.input = {2, 72, 7, 7}, .out_channels = 40, .kernel = 3, .padding = 1}, 2);
  expect_exact({.input = {2, 40, 8, 8}, .out_channels = 136, .kernel = 1}, 2);
  expect_exact({.input = {2, 72, 9, 9}, .out_channels = 88, .kernel = 1, .stride = 2, .padding = 1}, 2);
  expect_exact({.input = {2, 40, 9, 9}, .out_channels = 64, .kernel = 3, .stride = 2, .padding = 1}, 1);
  expect_exact({.input = {2, 64, 9, 9}, .out_channels = 40, .kernel = 3, .padding = 1}, 1);
  expect_exact({.input = {3, 48, 1, 1}, .out_channels = 32, .kernel = 1}, 1);
  expect_exact({.input = {3, 32, 3, 3}, .out_channels = 16, .kernel = 3}, 1);
  expect_exact({.input = {2, 32, 9, 8}, .out_channels = 64, .kernel = 3, .padding = 1, .groups = 4}, 2);
  expect_exact({.input = {2, 32, 9, 8}, .out_channels = 32, .kernel = 3, .padding = 1, .groups = 32}, 1);
}

// Rows of 22 MB for the weights and 43 MB for the images: gathered and summed in parts of the batch.
TEST_F(CpuBfloat16Conv2d, IsExactOnIntegersWhereABatchIsTakenInParts) {
  expect_exact({.input = {3, 32, 96, 96}, .out_channels = 2, .kernel = 7, .stride = 2, .padding = 3}, 2);
}

TEST_F(CpuBfloat16Conv2d, AddsToTheGradientsOnlyWithAccumulate) {
  for (const bool accumulate : {true, false}) {
    for (const std::int64_t kernel : {1, 3}) {
      for (const std::int64_t stride : {1, 2}) {
        expect_exact({.input = {2, 32, 12, 12},
                      .out_channels = 16,
                      .kernel = kernel,
                      .stride = stride,
                      .padding = kernel / 2,
                      .accumulate = accumulate},
                     2, 3);
      }
    }
    expect_exact(
        {.input = {2, 32, 6, 6}, .out_channels = 16, .kernel = 3, .bias = true, .accumulate = accumulate}, 2,
        3);
  }
}

// Sums of n products of values below 1 in float32: 4 · n · eps is a safe bound
// (tests/kernels/test_linear.cpp).
TEST_F(CpuBfloat16Conv2d, GivesNeighboursOfTheReferenceForOtherValues) {
  for (const Conv2dSpec& spec :
       {Conv2dSpec{.input = {2, 64, 14, 14}, .out_channels = 64, .kernel = 3, .padding = 1},
        Conv2dSpec{.input = {2, 64, 14, 14}, .out_channels = 96, .kernel = 1},
        Conv2dSpec{.input = {2, 64, 14, 14}, .out_channels = 96, .kernel = 3, .stride = 2, .padding = 1}}) {
    SCOPED_TRACE(text(spec));
    const test::ConvRun actual = run(*cpu_with(2), spec, halves, 1);
    const test::ConvRun expected = run(*make_oracle(), spec, halves, 1);

    const auto bound = [](std::int64_t terms) {
      return 4.0 * std::numeric_limits<float>::epsilon() * static_cast<double>(terms);
    };
    const Shape output = output_shape(spec);
    const std::int64_t window = spec.kernel * spec.kernel;
    test::expect_neighbours(actual.y, expected.y, bound(spec.input[1] * window), "y");
    test::expect_neighbours(actual.dx, expected.dx, bound(spec.out_channels * window), "dx");
    EXPECT_TRUE(test::within(test::largest_difference(actual.dw, expected.dw), 0.0,
                             bound(output[0] * output[2] * output[3])));
  }
}

TEST_F(CpuBfloat16Conv2d, GradientsOfWeightsAreNotRounded) {
  const Conv2dSpec spec{.input = {2, 32, 14, 14}, .out_channels = 32, .kernel = 1};
  const std::vector<float> dw = run(*cpu_with(1), spec, halves, 1).dw;
  EXPECT_TRUE(std::ranges::any_of(
      dw, [](float value) { return half::rounded(Precision::bfloat16, value) != value; }));
}

TEST_F(CpuBfloat16Conv2d, WeightsReturnToPlainOrderUnchangedAndPaddingIsZero) {
  const auto device = cpu_with(1);
  for (const Conv2dSpec& spec :
       {Conv2dSpec{.input = {1, 3, 9, 9}, .out_channels = 17, .kernel = 7, .padding = 3},
        Conv2dSpec{.input = {1, 17, 9, 9}, .out_channels = 19, .kernel = 3, .padding = 1},
        Conv2dSpec{.input = {1, 64, 9, 9}, .out_channels = 32, .kernel = 3, .stride = 2, .padding = 1},
        Conv2dSpec{.input = {1, 18, 9, 9}, .out_channels = 6, .kernel = 3, .padding = 1, .groups = 3},
        Conv2dSpec{.input = {1, 32, 9, 9}, .out_channels = 20, .kernel = 1}}) {
    SCOPED_TRACE(text(spec));
    const auto plan = device->layers().conv2d(spec);
    test::expect_weights_return(*plan, spec);

    Storage dw = test::storage_of(*device, std::vector<float>(static_cast<std::size_t>(plan->weight_size())));
    const Tensor x = image_of(*device, spec.input, values(spec.input.size(), 1));
    const Tensor dy = image_of(*device, plan->output_shape(), values(plan->output_shape().size(), 4));
    plan->backward_weights(x, dy, {dw.span(), {}});
    const std::vector<float> gradient = read(*device, dw);
    EXPECT_LE(static_cast<std::int64_t>(gradient.size()) - std::count(gradient.begin(), gradient.end(), 0.0F),
              plain_size(spec));
  }
}

TEST_F(CpuBfloat16Conv2d, GivesTheSameBitsAgainWhateverIsInTheScratchMemory) {
  for (const std::int64_t kernel : {1, 3}) {
    for (const std::int64_t stride : {1, 2}) {
      const Conv2dSpec spec{.input = {3, 32, 9, 9},
                            .out_channels = 48,
                            .kernel = kernel,
                            .stride = stride,
                            .padding = kernel / 2};
      const auto device = cpu_with(2);
      const test::ConvRun once = run(*device, spec, halves, 1);
      const Conv2dSpec larger{.input = {3, 64, 12, 12}, .out_channels = 64, .kernel = 1, .stride = 2};
      const auto poisoned = [](std::int64_t count, std::uint64_t) {
        return std::vector<float>(static_cast<std::size_t>(count), std::numeric_limits<float>::quiet_NaN());
      };
      run(*device, larger, poisoned, 1);

      const test::ConvRun again = run(*device, spec, halves, 2);

      EXPECT_EQ(once.y, again.y);
      EXPECT_EQ(once.dx, again.dx);
      EXPECT_EQ(once.dw, again.dw);
    }
  }
}

}  // namespace
}  // namespace flotilla
