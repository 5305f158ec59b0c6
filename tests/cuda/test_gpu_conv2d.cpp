// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "kernels/gpu/loops/loop_tensors.hpp"
#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/kernels/convolutions.hpp"
#include "tests/support/within.hpp"

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

  if (spec.bias && is_half(precision)) {
    // A bias below 1 is added to what is rounded already: u |p| + 2 u |y|, as for linear layers, and exact
    // values come near that.
    const double unit = 2.0 * (precision == Precision::float16 ? 0x1p-11 : 0x1p-8);
    for (std::size_t i = 0; i < actual.y.size(); ++i)
      EXPECT_TRUE(
          test::within(actual.y[i], expected.y[i], unit * (3.0 * std::abs(double{expected.y[i]}) + 1.0)));
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
    for (const std::int64_t channels : {1, 3, 8, 11}) {
      expect_the_same_bits({.input = {2, channels, 9, 8},
                            .out_channels = 4,
                            .kernel = 5,
                            .stride = 2,
                            .padding = 2,
                            .accumulate = channels == 3,
                            .input_gradient = false},
                           precision, 2, true);
    }
  }
}

TEST_F(CudaConv2d, FoldsAFirstLayerOfFewChannelsInBfloat16) {
  for (const std::int64_t kernel : {5, 6, 7}) {
    for (const std::int64_t padding : {std::int64_t{0}, std::int64_t{1}, kernel / 2}) {
      for (const Shape& image : {Shape{1, 1, 9, 12}, {2, 2, 10, 9}, {3, 3, 8, 7}, {1, 4, 7, 11}}) {
        const Conv2dSpec spec{.input = image,
                              .out_channels = kernel == 5 ? 3 : 8,
                              .kernel = kernel,
                              .stride = 2,
                              .padding = padding,
                              .bias = kernel == 6,
                              .accumulate = image[1] == 3,
                              .input_gradient = false};
        expect_the_same_bits(spec, Precision::bfloat16, 2, true);
        expect_the_same_bits(spec, Precision::float16, 1, true);
      }
    }
  }
}

TEST_F(CudaConv2d, StagesAFoldedBatchOnlyWhereItPays) {
  const Conv2dSpec stem{.input = {2, 3, 224, 224},
                        .out_channels = 64,
                        .kernel = 7,
                        .stride = 2,
                        .padding = 3,
                        .input_gradient = false};
  const auto form = [](const Conv2dSpec& spec, Precision precision) {
    const auto plan = test::gpu({.precision = precision})->layers().conv2d(spec);
    return stored_form(Tensor(spec.input, DeviceSpan<float>{}, plan->batch_layout()));
  };
  const auto changed = [&](auto member, auto value) {
    Conv2dSpec spec = stem;
    spec.*member = value;
    return form(spec, Precision::bfloat16);
  };

  EXPECT_EQ(form(stem, Precision::bfloat16), (ImageForm{16, 115, 115, 3}));
  EXPECT_EQ(form(stem, Precision::float16), ImageForm{4});
  EXPECT_EQ(form(stem, Precision::float32), ImageForm{3});
  EXPECT_EQ(changed(&Conv2dSpec::input_gradient, true), ImageForm{3});
  EXPECT_EQ(changed(&Conv2dSpec::stride, 1), ImageForm{8});
  EXPECT_EQ(changed(&Conv2dSpec::kernel, 3), ImageForm{8});
  EXPECT_EQ(changed(&Conv2dSpec::input, Shape{2, 5, 16, 16}), ImageForm{8});
}

TEST_F(CudaConv2d, TakesStagedBytesAsTheirValues) {
  const ByteScaling scaling{.factor = {0.5F, 0.25F, 2.0F}, .offset = {-1.0F, 3.0F, 0.5F}};
  for (const Precision precision : test::precisions) {
    const auto gpu = test::gpu({.precision = precision});
    const bool folds = precision == Precision::bfloat16;
    const Conv2dSpec spec{.input = {2, 3, 6, 5},
                          .out_channels = 4,
                          .kernel = folds ? 5 : 3,
                          .stride = folds ? 2 : 1,
                          .padding = 1,
                          .input_gradient = false};
    const auto plan = gpu->layers().conv2d(spec);
    const Storage weight = test::storage_of(*gpu, exact_values(plan->weight_size(), 2));
    const test::GivenWeights w(*gpu, weight.span());
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(spec.input.size()));
    std::vector<float> values(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t pixel = i / 3 % 30;
      bytes[i] = static_cast<std::uint8_t>(i * 7 % 61);
      values[(i / 90 * 3 + i % 3) * 30 + pixel] =
          std::fma(static_cast<float>(bytes[i]), scaling.factor[i % 3], scaling.offset[i % 3]);
    }
    Tensor of_bytes(spec.input, DeviceSpan<float>{}, plan->batch_layout());
    Tensor of_values(spec.input, DeviceSpan<float>{}, plan->batch_layout());
    Tensor from_bytes = gpu->images().tensor(plan->output_shape());
    Tensor from_values = gpu->images().tensor(plan->output_shape());

    gpu->tensors().stage(ByteImages{.pixels = bytes, .shape = spec.input, .scaling = scaling}, of_bytes);
    gpu->tensors().stage(values, of_values);
    plan->forward(of_bytes, w, from_bytes);
    plan->forward(of_values, w, from_values);

    EXPECT_EQ(test::read_image(*gpu, from_bytes), test::read_image(*gpu, from_values)) << name(precision);
  }
}

TEST_F(CudaConv2d, RefusesABatchWithOtherChannelsThanItReads) {
  const auto gpu = test::gpu({.precision = Precision::float16});
  const Conv2dSpec first{.input = {1, 3, 4, 4}, .out_channels = 2, .kernel = 3, .input_gradient = false};
  const Conv2dSpec later{.input = {1, 3, 4, 4}, .out_channels = 2, .kernel = 3};
  const auto filled = gpu->layers().conv2d(first);
  const auto plain = gpu->layers().conv2d(later);
  const auto pool = gpu->layers().pool2d({.input = first.input, .kind = Pooling::max, .kernel = 2});
  const Storage weight = gpu->memory().allocate(static_cast<std::size_t>(filled->weight_size()));
  const test::GivenWeights w(*gpu, weight.span());
  std::vector<float> values = exact_values(first.input.size(), 1);
  Tensor batch(first.input, DeviceSpan<float>{}, filled->batch_layout());
  gpu->tensors().stage(values, batch);
  const Tensor image = test::image_of(*gpu, first.input, values);
  Tensor y = gpu->images().tensor(filled->output_shape());
  Tensor pooled = gpu->images().tensor(pool->output_shape());

  EXPECT_NO_THROW(filled->forward(batch, w, y));
  EXPECT_THROW(filled->forward(image, w, y), InternalError);
  EXPECT_THROW(plain->forward(batch, w, y), InternalError);
  EXPECT_THROW(pool->forward(batch, pooled), InternalError);
  EXPECT_THROW(gpu->images().copy(batch, batch), InternalError);
  EXPECT_EQ(plain->batch_layout(), nullptr);
}

TEST_F(CudaConv2d, FoldsAPlainTensorOfTheDevice) {
  const auto gpu = test::gpu({.precision = Precision::bfloat16});
  const Conv2dSpec spec{
      .input = {2, 3, 8, 9}, .out_channels = 2, .kernel = 5, .stride = 2, .input_gradient = false};
  const auto plan = gpu->layers().conv2d(spec);
  const Storage weight = test::storage_of(*gpu, exact_values(plan->weight_size(), 2));
  const test::GivenWeights w(*gpu, weight.span());
  std::vector<float> values = exact_values(spec.input.size(), 1);
  Tensor plain = gpu->tensors().zeros(spec.input);
  gpu->images().upload(values, plain);
  Tensor batch(spec.input, DeviceSpan<float>{}, plan->batch_layout());
  gpu->tensors().stage(values, batch);
  Tensor of_plain = gpu->images().tensor(plan->output_shape());
  Tensor of_batch = gpu->images().tensor(plan->output_shape());

  plan->forward(plain, w, of_plain);
  plan->forward(batch, w, of_batch);

  EXPECT_EQ(test::read_image(*gpu, of_plain), test::read_image(*gpu, of_batch));
}

TEST_F(CudaConv2d, TakesAPlainTensorOfTheDevice) {
  const auto gpu = test::gpu();
  const Conv2dSpec spec{.input = {2, 3, 4, 5}, .out_channels = 2, .kernel = 3, .padding = 1};
  EXPECT_EQ(gpu->layers().conv2d(spec)->batch_layout(), nullptr);
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
