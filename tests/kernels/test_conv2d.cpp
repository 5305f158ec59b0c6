// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/convolutions.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::plain_size;
using test::read;
using test::text;
using test::values;

/// Sums of n products of values below 1: 4 · n · eps is a safe bound (tests/kernels/test_linear.cpp).
double bound(std::int64_t terms) {
  return 4.0 * std::numeric_limits<float>::epsilon() * static_cast<double>(terms) + 1e-6;
}

void expect_agreement(const Conv2dSpec& spec, int threads, int passes = 1,
                      WinogradUse winograd = WinogradUse::never) {
  SCOPED_TRACE(cat(text(spec), ", threads ", threads));
  const auto cpu = make_device({.kind = "cpu", .threads = threads, .winograd = winograd});
  const auto oracle = make_device({.kind = "reference"});

  const test::ConvRun actual = test::run_conv2d(*cpu, spec, passes);
  const test::ConvRun expected = test::run_conv2d(*oracle, spec, passes);

  const Shape output = output_shape(spec);
  const std::int64_t window = spec.kernel * spec.kernel;
  const std::int64_t summed = passes * output[0] * output[2] * output[3];
  EXPECT_TRUE(test::within(test::largest_difference(actual.y, expected.y), 0.0,
                           bound(spec.input[1] / spec.groups * window)));
  EXPECT_TRUE(test::within(test::largest_difference(actual.dx, expected.dx), 0.0,
                           bound(spec.out_channels / spec.groups * window)));
  EXPECT_TRUE(test::within(test::largest_difference(actual.dw, expected.dw), 0.0, bound(summed)));
  EXPECT_TRUE(test::within(test::largest_difference(actual.db, expected.db), 0.0, bound(summed)));
}

TEST(CpuConv2d, AgreesWithTheReferenceForManyShapes) {
  for (const std::int64_t batch : {1, 3}) {
    for (const std::int64_t in : {3, 16, 17}) {
      for (const std::int64_t out : {1, 16, 40}) {
        for (const std::int64_t kernel : {1, 3, 5}) {
          for (const std::int64_t stride : {1, 2}) {
            for (const std::int64_t padding : {std::int64_t{0}, kernel / 2}) {
              expect_agreement({.input = {batch, in, 7, 6},
                                .out_channels = out,
                                .kernel = kernel,
                                .stride = stride,
                                .padding = padding,
                                .bias = out == 40},
                               batch == 1 ? 1 : 2);
            }
          }
        }
      }
    }
  }
}

TEST(CpuConv2d, AgreesWithTheReferenceForTheLayersOfResNets) {
  expect_agreement({.input = {2, 3, 33, 31}, .out_channels = 64, .kernel = 7, .stride = 2, .padding = 3}, 2);
  expect_agreement({.input = {1, 64, 14, 14}, .out_channels = 64, .kernel = 3, .padding = 1}, 2);
  expect_agreement({.input = {2, 64, 9, 9}, .out_channels = 32, .kernel = 3, .stride = 2, .padding = 1}, 1);
  expect_agreement({.input = {2, 32, 8, 8}, .out_channels = 128, .kernel = 1}, 2);
  expect_agreement({.input = {2, 64, 8, 8}, .out_channels = 96, .kernel = 1, .stride = 2}, 2);
  expect_agreement({.input = {3, 48, 1, 1}, .out_channels = 32, .kernel = 1}, 1);
  expect_agreement({.input = {3, 32, 3, 3}, .out_channels = 16, .kernel = 3}, 1);
}

TEST(CpuConv2d, AgreesWithTheReferenceWhereWinogradIsAllowed) {
  for (const std::int64_t side : {4, 6, 7, 14}) {
    for (const std::int64_t in : {3, 17, 16, 64}) {
      for (const std::int64_t stride : {1, 2}) {
        expect_agreement({.input = {3, in, side, side + 1},
                          .out_channels = 32,
                          .kernel = 3,
                          .stride = stride,
                          .padding = 1},
                         2, 1, WinogradUse::where_faster);
      }
    }
  }
  expect_agreement({.input = {2, 32, 9, 9}, .out_channels = 16, .kernel = 3, .padding = 1, .bias = true}, 1,
                   1, WinogradUse::where_faster);
  expect_agreement({.input = {2, 32, 9, 9},
                    .out_channels = 16,
                    .kernel = 3,
                    .padding = 1,
                    .bias = true,
                    .accumulate = true},
                   1, 3, WinogradUse::where_faster);
}

TEST(CpuConv2d, ReadsNothingThatAnotherOneLeftInTheScratchMemory) {
  const Conv2dSpec spec{.input = {2, 64, 7, 7}, .out_channels = 64, .kernel = 3, .padding = 1};
  for (const WinogradUse winograd : {WinogradUse::never, WinogradUse::wherever_possible}) {
    const auto clean = make_device({.kind = "cpu", .threads = 2, .winograd = winograd});
    const auto used = make_device({.kind = "cpu", .threads = 2, .winograd = winograd});
    const auto before =
        used->layers().conv2d({.input = {4, 64, 16, 16}, .out_channels = 64, .kernel = 3, .padding = 1});
    Tensor poison = test::image_of(*used, {4, 64, 16, 16},
                                   std::vector<float>(65536, std::numeric_limits<float>::quiet_NaN()));
    Storage weight = used->memory().allocate(static_cast<std::size_t>(before->weight_size()));
    before->backward_weights(poison, poison, {weight.span(), {}});
    before->forward(poison, {weight.span(), {}}, poison);

    const test::ConvRun actual = test::run_conv2d(*used, spec);
    const test::ConvRun expected = test::run_conv2d(*clean, spec);

    EXPECT_EQ(actual.y, expected.y) << static_cast<int>(winograd);
    EXPECT_EQ(actual.dx, expected.dx) << static_cast<int>(winograd);
    EXPECT_EQ(actual.dw, expected.dw) << static_cast<int>(winograd);
  }
}

TEST(CpuConv2d, AgreesWithTheReferenceInGroups) {
  for (const std::int64_t groups : {2, 4, 32}) {
    for (const std::int64_t stride : {1, 2}) {
      expect_agreement({.input = {2, 32, 9, 8},
                        .out_channels = 64,
                        .kernel = 3,
                        .stride = stride,
                        .padding = 1,
                        .groups = groups,
                        .bias = true},
                       2);
    }
  }
  // A kernel for each channel, and channels that fill no block.
  expect_agreement({.input = {2, 32, 9, 8}, .out_channels = 32, .kernel = 3, .padding = 1, .groups = 32}, 1);
  expect_agreement({.input = {1, 6, 5, 5}, .out_channels = 9, .kernel = 3, .padding = 1, .groups = 3}, 1);
}

TEST(CpuConv2d, AddsToTheGradientsOnlyWithAccumulate) {
  for (const std::int64_t in : {3, 32}) {
    Conv2dSpec spec{.input = {2, in, 6, 6},
                    .out_channels = 16,
                    .kernel = 3,
                    .padding = 1,
                    .bias = true,
                    .accumulate = true};
    expect_agreement(spec, 2, 3);
    spec.accumulate = false;
    expect_agreement(spec, 2, 3);
  }
}

TEST(CpuConv2d, WeightsReturnToPlainOrderUnchangedAndPaddingIsZero) {
  const auto device = make_device({.kind = "cpu"});
  for (const Conv2dSpec& spec :
       {Conv2dSpec{.input = {1, 3, 9, 9}, .out_channels = 17, .kernel = 7, .padding = 3},
        Conv2dSpec{.input = {1, 64, 9, 9}, .out_channels = 32, .kernel = 3, .padding = 1},
        Conv2dSpec{.input = {1, 18, 9, 9}, .out_channels = 6, .kernel = 3, .padding = 1, .groups = 3},
        Conv2dSpec{.input = {1, 32, 9, 9}, .out_channels = 20, .kernel = 1}}) {
    SCOPED_TRACE(text(spec));
    const auto plan = device->layers().conv2d(spec);
    test::expect_weights_return(*plan, spec);
  }
}

TEST(CpuConv2d, KeepsThePaddingOfGradientsZero) {
  const auto device = make_device({.kind = "cpu"});
  for (const bool accumulate : {false, true}) {
    const Conv2dSpec spec{.input = {1, 17, 5, 5}, .out_channels = 19, .kernel = 3, .accumulate = accumulate};
    const auto plan = device->layers().conv2d(spec);
    Storage dw = device->memory().allocate(static_cast<std::size_t>(plan->weight_size()));
    const Tensor x = test::image_of(*device, spec.input, values(spec.input.size(), 1));
    const Tensor dy = test::image_of(*device, plan->output_shape(), values(plan->output_shape().size(), 4));

    plan->backward_weights(x, dy, {dw.span(), {}});

    const std::vector<float> stored = read(*device, dw);
    EXPECT_EQ(static_cast<std::int64_t>(stored.size()) - std::count(stored.begin(), stored.end(), 0.0F),
              plain_size(spec));
  }
}

TEST(CpuConv2d, GivesTheSameBitsAgain) {
  const Conv2dSpec spec{.input = {3, 32, 9, 9}, .out_channels = 48, .kernel = 3, .padding = 1};
  for (const WinogradUse winograd : {WinogradUse::never, WinogradUse::wherever_possible}) {
    const auto first = make_device({.kind = "cpu", .threads = 2, .winograd = winograd});
    const auto second = make_device({.kind = "cpu", .threads = 2, .winograd = winograd});

    const test::ConvRun once = test::run_conv2d(*first, spec);
    const test::ConvRun again = test::run_conv2d(*second, spec, 2);

    EXPECT_EQ(once.y, again.y) << static_cast<int>(winograd);
    EXPECT_EQ(once.dx, again.dx) << static_cast<int>(winograd);
    EXPECT_EQ(once.dw, again.dw) << static_cast<int>(winograd);
  }
}

TEST(Conv2d, IsExactOnSmallIntegers) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const auto plan = device->layers().conv2d({.input = {1, 1, 3, 3}, .out_channels = 1, .kernel = 2});
    std::vector<float> stored(static_cast<std::size_t>(plan->weight_size()));
    plan->weight_from_plain(std::vector<float>{1, 2, 3, 4}, stored);
    const Storage weight = test::storage_of(*device, stored);
    const Tensor x = test::image_of(*device, {1, 1, 3, 3}, {1, 0, 0, 0, 1, 0, 2, 0, 1});
    Tensor y = test::stale_image(*device, plan->output_shape());

    plan->forward(x, {weight.span(), {}}, y);

    EXPECT_EQ(test::read_image(*device, y), (std::vector<float>{5, 3, 8, 5})) << kind;
  }
}

TEST(Conv2d, CountsTheOperationsOfAPass) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const Conv2dSpec spec{
        .input = {2, 6, 5, 4}, .out_channels = 9, .kernel = 3, .stride = 2, .padding = 1, .groups = 3};
    // 2 x 9 x 3 x 2 outputs of 2 x 3 x 3 products each.
    EXPECT_EQ(device->layers().conv2d(spec)->flops(), 2 * 108 * 18) << kind;
    EXPECT_EQ(device->layers().linear({.batch = 3, .in = 5, .out = 7})->flops(), 2 * 3 * 5 * 7) << kind;
  }
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  for (const char* const kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    ImageOperations& images = device->images();
    EXPECT_THROW(device->layers().conv2d({.input = {1, 3, 4, 4}, .out_channels = 2, .kernel = 5}),
                 InternalError);
    EXPECT_THROW(device->layers().conv2d({.input = {1, 3, 4, 4}, .out_channels = 4, .groups = 2}),
                 InternalError);
    EXPECT_THROW(device->layers().conv2d({.input = {1, 3, 4}, .out_channels = 4}), InternalError);
    EXPECT_THROW(device->layers().conv2d({.input = {1, 3, 4, 4}, .out_channels = 4, .stride = 0}),
                 InternalError);
    const auto plan =
        device->layers().conv2d({.input = {1, 16, 4, 4}, .out_channels = 16, .input_gradient = false});
    const Storage weight = device->memory().allocate(static_cast<std::size_t>(plan->weight_size()));
    const Tensor x = images.tensor({1, 16, 4, 4});
    Tensor small = images.tensor({1, 16, 3, 4});
    Tensor y = images.tensor({1, 16, 4, 4});
    EXPECT_THROW(plan->forward(x, {weight.span(), {}}, small), InternalError);
    EXPECT_THROW(plan->forward(x, {weight.span().subspan(0, 16), {}}, y), InternalError);
    EXPECT_THROW(plan->backward_data(x, {weight.span(), {}}, y), InternalError);
  }
}

TEST(CpuConv2d, RefusesAPlainTensorWhereImagesLieInBlocks) {
  const auto device = make_device({.kind = "cpu"});
  const Tensor image = device->images().tensor({1, 64, 4, 4});
  if (image.layout() == nullptr) GTEST_SKIP() << "this processor's convolutions like plain images";
  const auto plan = device->layers().conv2d({.input = {1, 64, 4, 4}, .out_channels = 16});
  const Storage weight = device->memory().allocate(static_cast<std::size_t>(plan->weight_size()));
  const Tensor plain = device->tensors().zeros({1, 64, 4, 4});
  Tensor y = device->images().tensor(plan->output_shape());

  EXPECT_THROW(plan->forward(plain, {weight.span(), {}}, y), InternalError);
}

}  // namespace
}  // namespace flotilla
