// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/cpu/native_precisions.hpp"
#include "kernels/error.hpp"
#include "kernels/half_rounding.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/host_staging.hpp"
#include "kernels/processor/processor.hpp"
#include "tests/kernels/linear_run.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/relative_difference.hpp"
#include "tests/support/within.hpp"

// The device "cpu" in bfloat16, on processors that have it.

namespace flotilla {
namespace {

using test::mentions;

class CpuBfloat16 : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
    device = make_device({.kind = "cpu", .precision = Precision::bfloat16});
  }

  std::unique_ptr<Device> device;
};

TEST(NativePrecisions, AreFloat32AndPerhapsBfloat16) {
  EXPECT_TRUE(is_native(Precision::float32));
  EXPECT_FALSE(is_native(Precision::float16));
  EXPECT_EQ(is_native(Precision::bfloat16), !native_precisions().bfloat16.empty());
  const std::string& by = native_precisions().bfloat16;
  EXPECT_EQ(is_faster_in_bfloat16(), by == "AMX" || (is_amd() && !by.empty()));
}

TEST(NativePrecisions, OthersAreRefusedNamingWhatThisProcessorHas) {
  const auto mistake = [](Precision precision) -> std::string {
    return test::error_of([&] { make_device({.kind = "cpu", .precision = precision}); });
  };

  EXPECT_TRUE(mentions(mistake(Precision::float16), {"\"cpu\" computes in float32 and, where"}));
  const std::string refused = mistake(Precision::bfloat16);
  EXPECT_EQ(refused.empty(), is_native(Precision::bfloat16));
  if (!refused.empty()) {
    EXPECT_TRUE(mentions(refused, {"finds " + native_precisions().float32 + " on this one"}));
  }
}

TEST_F(CpuBfloat16, IsWhatTheDeviceSays) {
  EXPECT_EQ(device->info().precision, Precision::bfloat16);
  EXPECT_TRUE(mentions(device->info().description, {", bfloat16 by " + native_precisions().bfloat16}));
}

TEST_F(CpuBfloat16, TwoValuesOfATensorShareAFloat) {
  EXPECT_EQ(device->tensors().floats_of({3, 5}), 8U);
  EXPECT_EQ(device->tensors().zeros({3, 5}).span().size(), 8U);
}

TEST_F(CpuBfloat16, ABatchIsCopiedAndRoundedOnce) {
  std::vector<float> host = test::values(70'001, 1, 3.0);
  host[1] = std::numeric_limits<float>::infinity();
  host[2] = std::numeric_limits<float>::quiet_NaN();
  for (const int threads : {1, 2}) {
    device = make_device({.kind = "cpu", .threads = threads, .precision = Precision::bfloat16});
    Tensor tensor({70'001, 1}, DeviceSpan<float>());

    device->tensors().stage(host, tensor);
    const void* const first = tensor.span().address();
    device->tensors().stage(host, tensor);
    const std::vector<float> found = test::read(*device, tensor);

    EXPECT_EQ(tensor.span().address(), first);
    EXPECT_EQ(found[0], half::rounded(Precision::bfloat16, host[0]));
    EXPECT_EQ(found[1], host[1]);
    EXPECT_TRUE(std::isnan(found[2]));
    for (std::size_t i = 3; i < host.size(); ++i)
      ASSERT_EQ(found[i], half::rounded(Precision::bfloat16, host[i])) << i;
    EXPECT_THROW(device->tensors().stage(std::span<float>(host).first(5), tensor), InternalError);
  }
}

TEST_F(CpuBfloat16, ImagesOfBytesAreScaledAsOnTheReferenceDevice) {
  const auto oracle = make_device({.kind = "reference"});
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Shape shape{19, channels, 23, 41};
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.size()));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 37 + i / 256);
    const ByteImages images{.pixels = bytes,
                            .shape = shape,
                            .scaling = {.factor = {0.0171F, 0.0175F, 0.0174F, 0.004F},
                                        .offset = {-2.118F, -2.036F, -1.804F, 0.3F}}};
    for (const int threads : {1, 2}) {
      device = make_device({.kind = "cpu", .threads = threads, .precision = Precision::bfloat16});
      for (const Shape& wanted : {shape, Shape{19, shape.size() / 19}}) {
        Tensor actual(wanted, DeviceSpan<float>());
        Tensor expected(wanted, DeviceSpan<float>());

        device->tensors().stage(images, actual);
        oracle->tensors().stage(images, expected);

        std::vector<float> rounded = test::read(*oracle, expected);
        for (float& value : rounded) value = half::rounded(Precision::bfloat16, value);
        EXPECT_EQ(test::read(*device, actual), rounded) << channels;
      }
    }
    Tensor other({19, 5}, DeviceSpan<float>());
    EXPECT_THROW(device->tensors().stage(images, other), InternalError);
  }
}

TEST_F(CpuBfloat16, ValuesThatAreNotFiniteAreFound) {
  std::vector<float> values(1'001, -3e38F);

  EXPECT_TRUE(device->tensors().all_finite(test::tensor_of(*device, {1'001}, values)));
  for (const float special :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
        -std::numeric_limits<float>::infinity(), 3.4e38F}) {  // 3.4e38 rounds to infinity
    values[1'000] = special;
    EXPECT_FALSE(device->tensors().all_finite(test::tensor_of(*device, {1'001}, values))) << special;
  }
}

TEST_F(CpuBfloat16, TheHostReadsATensorAsFloats) {
  HostStaging staging(*device, 0);

  const std::span<const float> read = staging.read(test::tensor_of(*device, {3}, {1.0F, 257.0F, -3.0F}));

  EXPECT_EQ(std::vector<float>(read.begin(), read.end()), (std::vector<float>{1.0F, 256.0F, -3.0F}));
}

/// Multiples of 1/16 in [−1, 1]: sums of products of some thousand of them are exact in float32.
std::vector<float> sixteenths(std::int64_t count, std::uint64_t stream) {
  std::vector<float> made = test::values(count, stream);
  for (float& value : made) value = std::round(16.0F * value) / 16.0F;
  return made;
}

TEST_F(CpuBfloat16, ALinearLayerIsTheReferencesBitForBitWhereSumsAreExact) {
  const auto oracle = make_device({.kind = "reference", .precision = Precision::bfloat16});
  for (const int threads : {1, 2}) {
    device = make_device({.kind = "cpu", .threads = threads, .precision = Precision::bfloat16});
    for (const std::int64_t batch : {1, 7, 65}) {
      for (const std::int64_t in : {1, 31, 128, 784}) {
        for (const std::int64_t out : {1, 10, 17, 130}) {
          for (const Activation f : {Activation::identity, Activation::relu}) {
            const LinearSpec spec{.batch = batch,
                                  .in = in,
                                  .out = out,
                                  .bias = out != 17,
                                  .activation = f,
                                  .accumulate = in == 31};
            const test::LinearRun found = test::run_linear(*device, spec, 2, sixteenths);
            const test::LinearRun expected = test::run_linear(*oracle, spec, 2, sixteenths);
            const std::string where = cat(batch, "x", in, "->", out, ", ", threads, " threads");
            EXPECT_EQ(found.y, expected.y) << where;
            EXPECT_EQ(found.dx, expected.dx) << where;
            EXPECT_EQ(found.dw, expected.dw) << where;
            EXPECT_EQ(found.db, expected.db) << where;
          }
        }
      }
    }
  }
}

// Sums that differ by errors of float32 become one half or its neighbour: seldom, and then they differ by 2⁻⁸
// below 1. Each of y, dy and dx may; were all of one rounded apart, the norms would differ by 2⁻⁸.
TEST_F(CpuBfloat16, ALinearLayerIsAsCloseToTheReferenceAsARoundingForEveryActivation) {
  const auto oracle = make_device({.kind = "reference", .precision = Precision::bfloat16});
  for (const Activation f : activations_of_value) {
    const LinearSpec spec{.batch = 64, .in = 784, .out = 128, .activation = f};
    const auto small = [](std::int64_t count, std::uint64_t stream) {
      std::vector<float> made = test::values(count, stream, 0.1);
      for (float& value : made) value = half::rounded(Precision::bfloat16, value);
      return made;
    };
    const test::LinearRun found = test::run_linear(*device, spec, 1, small);
    const test::LinearRun expected = test::run_linear(*oracle, spec, 1, small);
    EXPECT_TRUE(test::within(test::largest_difference(found.y, expected.y), 0.0, 0x1p-8))
        << static_cast<int>(f);
    EXPECT_TRUE(test::within(test::relative_difference(found.y, expected.y), 0.0, 0x1p-10))
        << static_cast<int>(f);
    EXPECT_TRUE(test::within(test::relative_difference(found.dx, expected.dx), 0.0, 0x1p-9))
        << static_cast<int>(f);
    EXPECT_TRUE(test::within(test::relative_difference(found.dw, expected.dw), 0.0, 0x1p-9))
        << static_cast<int>(f);
    EXPECT_TRUE(test::within(test::relative_difference(found.db, expected.db), 0.0, 0x1p-9))
        << static_cast<int>(f);
  }
}

TEST_F(CpuBfloat16, ALinearLayerReadsTheParametersOfEachPass) {
  const auto plan = device->layers().linear({.batch = 2, .in = 3, .out = 2});
  const Tensor x = test::tensor_of(*device, {2, 3}, {1, 0, 2, 0, 1, 0});
  Tensor y = device->tensors().zeros({2, 2});
  Storage weight = device->memory().allocate(6);
  const Storage bias = test::storage_of(*device, {10, -100});
  for (const float factor : {1.0F, 2.0F}) {
    std::vector<float> stored(6);
    plan->weight_from_plain(std::vector<float>{1, 2, 3, 4, 5, factor * 6}, stored);
    device->memory().upload(stored, weight.span());

    plan->forward(x, test::GivenWeights(*device, weight.span(), bias.span()), y);

    EXPECT_EQ(test::read(*device, y), (std::vector<float>{17, -100 + 4 + 2 * factor * 6, 12, -95}));
  }
  EXPECT_THROW(plan->forward(x, {weight.span(), bias.span()}, y), InternalError) << "without halves";
}

TEST_F(CpuBfloat16, AnUpdateWritesTheHalvesOfTheParametersInItsRanges) {
  constexpr std::size_t size = 70'000;
  const std::vector<FlatRange> ranges = {{.offset = 0, .count = 1'023, .rate_factor = 2.0F},
                                         {.offset = 1'040, .count = 40'000},
                                         {.offset = 50'000, .count = 19'999, .weight_decay = 0.1F}};
  constexpr std::uint16_t untouched = 7;
  for (const int threads : {1, 2}) {
    device = make_device({.kind = "cpu", .threads = threads, .precision = Precision::bfloat16});
    std::vector<float> parameters = test::values(size, 1);
    std::vector<float> state(size);
    std::vector<float> gradients = test::values(size, 2);
    gradients[5] = std::numeric_limits<float>::quiet_NaN();
    std::vector<std::uint16_t> halves(size, untouched);

    device->updates().update({.parameters = device_span(parameters),
                              .gradients = device_span(std::as_const(gradients)),
                              .ranges = ranges,
                              .learning_rate = 0.3F,
                              .halves = {device_span(halves), Precision::bfloat16}},
                             rules::Momentum{}, {device_span(state)});

    std::vector<std::uint16_t> expected(size, untouched);
    for (const FlatRange& range : ranges)
      for (auto i = static_cast<std::size_t>(range.offset); std::cmp_less(i, range.offset + range.count); ++i)
        expected[i] = half::bfloat16_of(parameters[i]);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(halves[i], expected[i]) << i;
    EXPECT_NE(parameters, test::values(size, 1));
    EXPECT_TRUE(std::isnan(half::float_of_bfloat16(halves[5])));
  }
}

TEST_F(CpuBfloat16, DropoutIsTheReferencesBitForBit) {
  const auto oracle = make_device({.kind = "reference", .precision = Precision::bfloat16});
  const DropoutSpec spec{.input = {301, 7}, .probability = 0.3F, .seed = 5, .layer = 2};
  const auto run = [&](Device& on) {
    const Tensor x = test::tensor_of(on, spec.input, sixteenths(spec.input.size(), 1));
    Tensor y = on.tensors().zeros(spec.input);
    on.layers().dropout(spec)->forward(9, x, y);
    return test::read(on, y);
  };

  EXPECT_EQ(run(*device), run(*oracle));
}

TEST_F(CpuBfloat16, TheLossIsThatOfTheLogitsAndItsGradientIsRoundedOnce) {
  const auto oracle = make_device({.kind = "reference", .precision = Precision::bfloat16});
  const SoftmaxLossSpec spec{.batch = 33, .classes = 21, .label_smoothing = 0.1F};
  std::vector<std::int32_t> labels(33);
  for (std::size_t n = 0; n < labels.size(); ++n) labels[n] = static_cast<std::int32_t>(n % 21);
  const auto run = [&](Device& on) {
    const Tensor logits = test::tensor_of(on, {33, 21}, sixteenths(33 * 21, 1));
    const auto loss = on.layers().softmax_loss(spec);
    Storage sums = on.memory().allocate(loss_sums);
    Tensor gradient = on.tensors().zeros({33, 21});
    loss->forward(logits, {labels, 30}, sums.span());
    loss->backward(logits, {labels, 30}, 0.125F, gradient);
    return std::pair(test::read(on, sums), test::read(on, gradient));
  };

  const auto [sums, gradient] = run(*device);
  const auto [expected_sums, expected] = run(*oracle);

  EXPECT_TRUE(test::within(sums[sum_loss], expected_sums[sum_loss], 1e-5 * double{expected_sums[sum_loss]}));
  EXPECT_EQ(sums[sum_top1], expected_sums[sum_top1]);
  EXPECT_EQ(sums[sum_top5], expected_sums[sum_top5]);
  EXPECT_EQ(sums[sum_samples], 30.0F);
  EXPECT_TRUE(test::within(test::relative_difference(gradient, expected), 0.0, 0x1p-10));
}

}  // namespace
}  // namespace flotilla
