// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/kernels/convolutions.hpp"

namespace flotilla {
namespace {

using test::exact_values;

void expect_the_same_bits(const Conv2dSpec& spec, Precision precision, int passes = 1, bool staged = false) {
  SCOPED_TRACE(cat(spec.input.text(), " -> ", spec.out_channels, " kernel ", spec.kernel, " stride ",
                   spec.stride, " padding ", spec.padding, " groups ", spec.groups, ", ", name(precision)));
  const auto gpu = test::gpu({.precision = precision});
  const auto oracle = make_device({.kind = "reference", .precision = precision});

  const test::ConvRun actual = test::run_conv2d(*gpu, spec, passes, exact_values, staged);
  const test::ConvRun expected = test::run_conv2d(*oracle, spec, passes, exact_values, staged);

  if (spec.bias && is_half(precision)) {  // added to what is rounded already
    const double unit = precision == Precision::float16 ? 0x1p-10 : 0x1p-7;
    for (std::size_t i = 0; i < actual.y.size(); ++i)
      EXPECT_NEAR(actual.y[i], expected.y[i], unit * (std::abs(double{expected.y[i]}) + 1.0));
  } else {
    EXPECT_EQ(actual.y, expected.y);
  }
  EXPECT_EQ(actual.dx, expected.dx);
  EXPECT_EQ(actual.dw, expected.dw);
  EXPECT_EQ(actual.db, expected.db);
}

class CudaConv2d : public test::OnGpu {};

TEST_F(CudaConv2d, GivesTheBitsOfTheReferenceForExactValues) {
  for (const Precision precision : test::precisions) {
    for (const std::int64_t in : {3, 16}) {
      for (const std::int64_t kernel : {1, 3}) {
        for (const std::int64_t stride : {1, 2}) {
          for (const std::int64_t padding : {std::int64_t{0}, kernel / 2}) {
            expect_the_same_bits({.input = {2, in, 7, 6},
                                  .out_channels = 5,
                                  .kernel = kernel,
                                  .stride = stride,
                                  .padding = padding,
                                  .bias = in == 3},
                                 precision);
          }
        }
      }
    }
    expect_the_same_bits({.input = {2, 8, 5, 5}, .out_channels = 12, .kernel = 3, .padding = 1, .groups = 4},
                         precision);
    expect_the_same_bits({.input = {3, 24, 1, 1}, .out_channels = 7, .kernel = 1}, precision);
  }
}

TEST_F(CudaConv2d, AddsToGradientsWhereItAccumulates) {
  for (const Precision precision : test::precisions) {
    expect_the_same_bits({.input = {2, 6, 5, 4},
                          .out_channels = 3,
                          .kernel = 3,
                          .padding = 1,
                          .bias = true,
                          .accumulate = true},
                         precision, 3);
  }
}

TEST_F(CudaConv2d, TakesAStagedBatchAsTheFirstLayerDoes) {
  for (const Precision precision : test::precisions) {
    expect_the_same_bits({.input = {2, 3, 9, 8},
                          .out_channels = 4,
                          .kernel = 5,
                          .stride = 2,
                          .padding = 2,
                          .input_gradient = false},
                         precision, 1, true);
  }
}

TEST_F(CudaConv2d, TakesAPlainTensorOfTheDevice) {
  const auto gpu = test::gpu();
  const Conv2dSpec spec{.input = {2, 3, 4, 5}, .out_channels = 2, .kernel = 3, .padding = 1};
  const auto plan = gpu->layers().conv2d(spec);
  const Storage weight = test::storage_of(*gpu, exact_values(plan->weight_size(), 2));
  const std::vector<float> x_values = exact_values(spec.input.size(), 1);
  const Tensor plain = test::tensor_of(*gpu, spec.input, x_values);
  const Tensor image = test::image_of(*gpu, spec.input, x_values);
  Tensor of_plain = gpu->images().tensor(plan->output_shape());
  Tensor of_image = gpu->images().tensor(plan->output_shape());

  plan->forward(plain, {weight.span(), {}}, of_plain);
  plan->forward(image, {weight.span(), {}}, of_image);

  EXPECT_EQ(test::read_image(*gpu, of_plain), test::read_image(*gpu, of_image));
}

}  // namespace
}  // namespace flotilla
