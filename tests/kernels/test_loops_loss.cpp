// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/kernels/loops_device.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::read;
using test::read_image;
using test::values;

struct Case {
  SoftmaxLossSpec spec;
  std::int64_t valid = 0;
  double range = 3.0;
  float other_share = 0.0F;
  Precision precision = Precision::float32;
};

struct Results {
  std::vector<float> sums, gradient;
  friend bool operator==(const Results&, const Results&) = default;
};

std::vector<std::int32_t> labels_of(const SoftmaxLossSpec& spec, std::uint64_t stream) {
  Random random(5, random_data, stream);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(spec.batch));
  for (std::int32_t& label : labels)
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(spec.classes)));
  return labels;
}

Results run(Device& device, const Case& of, bool in_place) {
  const Shape shape{of.spec.batch, of.spec.classes};
  const std::vector<std::int32_t> labels = labels_of(of.spec, 77);
  const std::vector<std::int32_t> others = labels_of(of.spec, 78);
  const Targets targets{
      .labels = labels, .valid = of.valid, .other_labels = others, .other_share = of.other_share};
  const auto plan = device.layers().softmax_loss(of.spec);
  Tensor logits = device.tensors().zeros(shape);
  device.images().upload(test::rounded(of.precision, values(shape.size(), 6, of.range)), logits);
  Tensor other = device.tensors().zeros(shape);
  device.images().upload(std::vector<float>(static_cast<std::size_t>(shape.size()), 99.0F), other);
  Tensor& gradient = in_place ? logits : other;
  Storage sums = test::storage_of(device, {1, 2, 3, 4});
  plan->forward(logits, targets, sums.span());
  plan->backward(logits, targets, 0.25F, gradient);
  device.queue().synchronize();
  return {read(device, sums), read_image(device, gradient)};
}

void expect_agreement(const Case& of) {
  SCOPED_TRACE(cat(of.spec.batch, "x", of.spec.classes, " valid ", of.valid, " range ", of.range,
                   " other share ", of.other_share, " precision ", static_cast<int>(of.precision)));
  const auto loops = test::loops_device(of.precision);
  const auto oracle = make_device({.kind = "reference"});

  const Results actual = run(*loops, of, true);
  const Results expected = run(*oracle, of, false);

  // As on the CPU: exp errs by 3e-7, sums of C terms by √C · eps; gradients are rounded when they are
  // written.
  EXPECT_TRUE(
      test::within(actual.sums[sum_loss], expected.sums[sum_loss],
                   1e-6 * (static_cast<double>(of.valid) + std::abs(double{expected.sums[sum_loss]}))));
  for (const std::size_t sum : {sum_top1, sum_top5, sum_samples})
    EXPECT_EQ(actual.sums[sum], expected.sums[sum]) << sum;
  const double stored = of.precision == Precision::float32 ? 0.0 : 2.0 * test::rounding_error(of.precision);
  EXPECT_TRUE(test::within(test::largest_difference(actual.gradient, expected.gradient), 0.0,
                           (1e-6 + stored) * 0.25));
}

TEST(LoopsSoftmaxLoss, AgreesWithTheReferenceForManyShapes) {
  for (const Precision precision : {Precision::float32, Precision::float16, Precision::bfloat16}) {
    for (const std::int64_t batch : {1, 2, 63, 300}) {
      for (const std::int64_t classes : {1, 2, 5, 10, 129, 1000})
        expect_agreement({.spec = {batch, classes, 0.1F}, .valid = batch, .precision = precision});
    }
  }
  expect_agreement({.spec = {63, 17, 0.0F}, .valid = 63});
}

TEST(LoopsSoftmaxLoss, LeavesPaddingRowsOutOfSumsAndGradient) {
  for (const std::int64_t valid : {0, 1, 5, 8}) expect_agreement({.spec = {8, 10, 0.1F}, .valid = valid});
}

TEST(LoopsSoftmaxLoss, AgreesWithTheReferenceForMixedLabels) {
  for (const float share : {0.25F, 1.0F}) {
    expect_agreement({.spec = {63, 17, 0.1F}, .valid = 63, .other_share = share});
    expect_agreement({.spec = {16, 12, 0.1F}, .valid = 5, .range = 1000.0, .other_share = share});
  }
}

TEST(LoopsSoftmaxLoss, GivesTheSameBitsInAnyOrderOfLanes) {
  const auto loops = test::loops_device();
  for (const std::int64_t classes : {10, 1000})
    test::expect_equal_in_any_order([&] {
      return run(*loops, {.spec = {63, classes, 0.1F}, .valid = 60, .other_share = 0.25F}, false);
    });
}

TEST(LoopsSoftmaxLoss, KeepsNotANumberAndInfinityVisible) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto device = test::loops_device();
    const auto plan = device->layers().softmax_loss({.batch = 1, .classes = 3});
    const std::vector<std::int32_t> labels = {0};
    const Tensor logits = test::tensor_of(*device, {1, 3}, {1.0F, bad, 2.0F});
    Storage sums = device->memory().allocate(loss_sums);

    plan->forward(logits, {.labels = labels, .valid = 1}, sums.span());

    EXPECT_TRUE(std::isnan(read(*device, sums)[sum_loss]));
  }
}

TEST(LoopsSoftmaxLoss, RefusesLabelsThatAreNoClass) {
  const auto device = test::loops_device();
  const auto plan = device->layers().softmax_loss({.batch = 1, .classes = 3});
  const std::vector<std::int32_t> labels = {3};
  const Tensor logits = device->tensors().zeros({1, 3});
  Storage sums = device->memory().allocate(loss_sums);

  EXPECT_THROW(plan->forward(logits, {.labels = labels, .valid = 1}, sums.span()), InternalError);
}

}  // namespace
}  // namespace flotilla
