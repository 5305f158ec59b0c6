// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"

namespace flotilla {
namespace {

using test::exact_values;
using test::read;

/// What a convolution computes, everything in plain order.
struct Results {
  std::vector<float> y, dx, dw, db;
};

std::size_t plain_size(const Conv2dSpec& s) {
  return static_cast<std::size_t>(s.out_channels * s.input[1] / s.groups * s.kernel * s.kernel);
}

Results run(Device& device, const Conv2dSpec& spec, int passes, bool plain_input) {
  const auto plan = device.layers().conv2d(spec);
  std::vector<float> stored(static_cast<std::size_t>(plan->weight_size()));
  plan->weight_from_plain(exact_values(static_cast<std::int64_t>(plain_size(spec)), 2), stored);
  const Storage weight = test::storage_of(device, stored);
  const Storage bias = test::storage_of(device, exact_values(spec.bias ? spec.out_channels : 0, 3));
  const Weights w{weight.span(), bias.span()};
  const float before = spec.accumulate ? 0.0F : 99.0F;
  Storage dw = test::storage_of(device, std::vector<float>(stored.size(), before));
  Storage db = test::storage_of(device, std::vector<float>(bias.size(), before));
  std::vector<float> x_values = exact_values(spec.input.size(), 1);
  const Tensor x =
      plain_input ? test::staged(device, spec.input, x_values) : test::image_of(device, spec.input, x_values);
  Tensor y = test::stale_image(device, plan->output_shape());
  Tensor dx = test::stale_image(device, spec.input);
  const Tensor dy = test::image_of(device, y.shape(), exact_values(y.shape().size(), 4));
  for (int pass = 0; pass < passes; ++pass) {
    plan->forward(x, w, y);
    if (spec.input_gradient) plan->backward_data(dy, w, dx);
    plan->backward_weights(x, dy, {dw.span(), db.span()});
  }
  Results results{test::read_image(device, y), test::read_image(device, dx),
                  std::vector<float>(plain_size(spec)), read(device, db)};
  plan->weight_to_plain(read(device, dw), results.dw);
  return results;
}

void expect_the_same_bits(const Conv2dSpec& spec, Precision precision, int passes = 1,
                          bool plain_input = false) {
  SCOPED_TRACE(cat(spec.input.text(), " -> ", spec.out_channels, " kernel ", spec.kernel, " stride ",
                   spec.stride, " padding ", spec.padding, " groups ", spec.groups, ", ", name(precision)));
  const auto gpu = test::gpu({.precision = precision});
  const auto oracle = make_device({.kind = "reference", .precision = precision});

  const Results actual = run(*gpu, spec, passes, plain_input);
  const Results expected = run(*oracle, spec, passes, plain_input);

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
