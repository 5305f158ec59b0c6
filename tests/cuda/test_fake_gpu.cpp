// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "models/layers.hpp"
#include "tests/cuda/fake/cublas.hpp"
#include "tests/cuda/fake/cudart.hpp"
#include "tests/cuda/fake/cudnn.hpp"
#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/support/within.hpp"

/// What only the fake GPU can tell.
namespace flotilla {
namespace {

class FakeGpu : public test::OnGpu {};

TEST_F(FakeGpu, SaysWhatItIs) {
  const auto device = test::gpu({.threads = 3, .precision = Precision::float16});

  EXPECT_NE(device->info().description.find("CUDA 13.0, cuDNN 9.19.0"), std::string::npos);
  EXPECT_NE(device->info().description.find("float16"), std::string::npos);
  EXPECT_FALSE(device->info().shares_host_memory);
  EXPECT_EQ(device->info().threads, 3);
  EXPECT_EQ(device->info().precision, Precision::float16);
  EXPECT_EQ(device->tensors().floats_of({3, 5}), 8U);
  EXPECT_EQ(device->queue().native_stream().ordinal, 0);
  EXPECT_NE(device->queue().native_stream().handle, nullptr);
}

TEST_F(FakeGpu, IsOneOfThoseThatTheProcessSees) {
  EXPECT_EQ(test::gpu({.ordinal = 1})->queue().native_stream().ordinal, 1);
  EXPECT_THROW(test::gpu({.ordinal = 2}), InternalError);
}

TEST_F(FakeGpu, GivesEverythingBack) {
  const std::size_t before = fake::left_over();
  Storage outlives;
  {
    const auto device = test::gpu({.precision = Precision::float16});
    outlives = device->memory().allocate(10);
    const auto plan = device->layers().conv2d({.input = {1, 2, 4, 4}, .out_channels = 2, .kernel = 3});
    const auto linear = device->layers().linear({.batch = 2, .in = 3, .out = 4});
    std::vector<float> batch(12);
    Tensor to({2, 6}, DeviceSpan<float>{});
    device->tensors().stage(batch, to);
    const auto lane = device->queue().copy_lane();
    EXPECT_GT(fake::left_over(), before);
    EXPECT_GT(device->memory().allocated_bytes(), 40);
  }
  outlives = {};

  EXPECT_EQ(fake::left_over(), before);
}

TEST_F(FakeGpu, CopiesNoBatchForAFirstConvolution) {
  for (const auto& [precision, kernel] :
       {std::pair{Precision::float16, 3}, {Precision::bfloat16, 3}, {Precision::bfloat16, 5}}) {
    const auto device = test::gpu({.precision = precision});
    const Conv2dSpec spec{.input = {2, 3, 6, 6},
                          .out_channels = 4,
                          .kernel = kernel,
                          .stride = kernel == 5 ? 2 : 1,
                          .padding = 1,
                          .input_gradient = false};
    const auto plan = device->layers().conv2d(spec);
    const Storage weight = device->memory().allocate(static_cast<std::size_t>(plan->weight_size()));
    const test::GivenWeights w(*device, weight.span());
    Storage gradient = device->memory().allocate(weight.size());
    Tensor x(spec.input, DeviceSpan<float>{}, plan->batch_layout());
    Tensor y = device->images().tensor(plan->output_shape());
    const auto launches = [&](const auto& call) {
      const std::int64_t before = fake::done().alone;
      call();
      return fake::done().alone - before;
    };
    std::vector<float> values = test::exact_values(spec.input.size(), 1);

    EXPECT_EQ(launches([&] { device->tensors().stage(values, x); }), 1);
    EXPECT_EQ(launches([&] { plan->forward(x, w, y); }), 2) << "its weight's copy in cuDNN's form, and it";
    EXPECT_EQ(launches([&] {
                plan->backward_weights(x, y, {gradient.span(), {}});
              }),
              2)
        << "it, and its gradient's copy";
  }
}

TEST_F(FakeGpu, LocksMemoryOfTheHostUntilTheResultGoes) {
  const auto device = test::gpu();
  const std::size_t before = fake::left_over();
  std::vector<float> host(100);
  {
    const Storage locked = device->memory().pin(host);
    EXPECT_EQ(locked.span().address(), host.data());
    EXPECT_EQ(fake::left_over(), before + 1);
  }

  EXPECT_EQ(fake::left_over(), before);
}

TEST_F(FakeGpu, SaysHowMuchMemoryThereIsWhenThereIsTooLittle) {
  const auto device = test::gpu();
  try {
    device->memory().allocate(std::size_t{2} << 30U);
    FAIL() << "the fake GPU has 4096 MiB";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("8192 MiB"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("train.batch_size"), std::string::npos) << error.what();
  }
}

void convolve(const DeviceSpec& spec, std::int64_t in = 8, std::int64_t out = 8) {
  const auto device = test::gpu(spec);
  const Conv2dSpec shape{.input = {1, in, 4, 4}, .out_channels = out, .kernel = 3};
  const auto plan = device->layers().conv2d(shape);
  const Storage weight = device->memory().allocate(static_cast<std::size_t>(plan->weight_size()));
  const Tensor x = device->images().tensor(shape.input);
  Tensor y = device->images().tensor(plan->output_shape());
  plan->forward(x, test::GivenWeights(*device, weight.span()), y);
}

TEST_F(FakeGpu, ChoosesTheFastestAlgorithmThatFitsOrOneThatRepeatsItsBits) {
  convolve({});
  EXPECT_EQ(fake::last_convolution().algorithm, 2);

  convolve({.reproducible = true});
  EXPECT_EQ(fake::last_convolution().algorithm, 3);

  EXPECT_THROW(convolve({.workspace_bytes = 100}), LibraryError);
}

// The fake cuDNN ranks algorithms wrongly when a shape is measured for the first time, and on zeros.
TEST_F(FakeGpu, ChoosesByTheSecondMeasurementOnRandomNumbers) {
  for (const Precision precision : test::precisions) {
    for (const bool graphs : {false, true}) {
      convolve({.precision = precision, .graphs = graphs});
      EXPECT_EQ(fake::last_convolution().algorithm, 2) << name(precision) << graphs;
    }
  }
}

std::vector<float> linear_on(const std::string& kind, Precision precision, Activation f) {
  const auto device = make_device({.kind = kind, .precision = precision});
  const auto plan = device->layers().linear({.batch = 5, .in = 17, .out = 9, .activation = f});
  const Storage weight = test::storage_of(*device, test::exact_values(plan->weight_size(), 2));
  const Storage bias = test::storage_of(*device, test::exact_values(9, 3));
  std::vector<float> inputs = test::exact_values(5 * 17, 1);
  const Tensor x = test::staged(*device, {5, 17}, inputs);
  Tensor y = device->tensors().zeros({5, 9});
  plan->forward(x, test::GivenWeights(*device, weight.span(), bias.span()), y);
  return test::values_of(*device, y);
}

TEST_F(FakeGpu, AddsTheBiasAfterAProductThatTheLibraryHasNoEpilogueFor) {
  fake::offer_epilogues(false);
  for (const Precision precision : test::precisions) {
    for (const Activation f : {Activation::identity, Activation::relu, Activation::tanh}) {
      const std::vector<float> actual = linear_on("cuda", precision, f);
      const std::vector<float> expected = linear_on("reference", precision, f);
      // The product is rounded too, and the bias is not.
      const double rounding = precision == Precision::float32   ? 0x1p-20
                              : precision == Precision::float16 ? 0x1p-8
                                                                : 0x1p-5;
      EXPECT_TRUE(test::within(test::largest_difference(actual, expected), 0.0, rounding)) << name(precision);
    }
  }
  fake::offer_epilogues(true);
}

// Two images of 2^30 values each; nothing of that size is allocated before.
TEST_F(FakeGpu, RefusesImagesWhoseValuesCannotBeCountedIn32Bits) {
  const auto device = test::gpu();
  const Shape large{2, 64, 4096, 4096};
  const auto expect_refused = [&](const auto& make_plan) {
    try {
      make_plan();
      FAIL() << "2^31 values";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("2x64x4096x4096"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("train.batch_size smaller, at most 1"), std::string::npos)
          << error.what();
    }
  };
  expect_refused([&] { device->layers().conv2d({.input = large, .out_channels = 1}); });
  expect_refused([&] { device->layers().pool2d({.input = large, .kernel = 2, .stride = 2}); });
}

TEST_F(FakeGpu, OffersTensorCoresForChannelsByEightsOnly) {
  for (const Precision half : {Precision::float16, Precision::bfloat16}) {
    convolve({.precision = half}, 16, 8);
    EXPECT_EQ(fake::last_convolution().math, CUDNN_TENSOR_OP_MATH);
    for (const auto& [in, out] : {std::pair(12, 8), std::pair(16, 4)}) {
      convolve({.precision = half}, in, out);
      EXPECT_EQ(fake::last_convolution().math, CUDNN_FMA_MATH) << in << " to " << out;
    }
  }
}

// Forward: sums of tiles; what joins them and updates the statistics; the normalisation. Backward: sums of
// tiles, what joins them, the gradient of x.
TEST_F(FakeGpu, ABatchNormTakesThreeKernelsForwardAndThreeBackwardAndASmallOneTwo) {
  const Shape large{2, 16, 40, 40};
  const Shape small{2, 16, 3, 3};
  for (const auto& [shape, kernels] : {std::pair(large, 3), std::pair(small, 2)}) {
    for (const Precision precision : test::precisions) {
      const auto device = test::gpu({.precision = precision});
      TensorSet parameters;
      TensorSet statistics;
      ActivationMemory memory(*device, Purpose::training);
      Norm norm({*device, parameters, statistics, memory}, "bn", {.input = shape}, nullptr);
      const auto arena_of = [&](const TensorSet& of) {
        return device->memory().allocate(static_cast<std::size_t>(of.layout().size()));
      };
      Storage values = arena_of(parameters);
      Storage gradients = arena_of(parameters);
      Storage running = arena_of(statistics);
      Storage step = arena_of(statistics);
      norm.bind({.parameters = values.span(),
                 .gradients = gradients.span(),
                 .statistics = running.span(),
                 .step_statistics = step.span()});
      const Tensor x = device->images().tensor(shape);
      Tensor y = device->images().tensor(shape);

      const std::int64_t before = fake::done().alone;
      norm.forward(x, nullptr, y, Pass::training);
      const std::int64_t between = fake::done().alone;
      norm.backward(x, y, y, nullptr, y, nullptr);

      EXPECT_EQ(between - before, kernels) << name(precision);
      EXPECT_EQ(fake::done().alone - between, kernels) << name(precision);
    }
  }
}

TEST_F(FakeGpu, RoundsToTf32OnlyWhereThatIsAllowed) {
  convolve({.tf32 = Tf32::none});
  EXPECT_EQ(fake::last_convolution().math, CUDNN_FMA_MATH);

  convolve({.tf32 = Tf32::convolutions});
  EXPECT_EQ(fake::last_convolution().math, CUDNN_DEFAULT_MATH);
}

}  // namespace
}  // namespace flotilla
