// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::read;
using test::values;

struct Results {
  std::vector<float> sums, gradient;
};

std::vector<std::int32_t> labels_for(const SoftmaxLossSpec& spec, std::uint64_t stream = 77) {
  Random random(5, random_data, stream);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(spec.batch));
  for (std::int32_t& label : labels) {
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(spec.classes)));
  }
  return labels;
}

Results run(Device& device, const SoftmaxLossSpec& spec, std::int64_t valid, const std::vector<float>& logits,
            float other_share = 0.0F) {
  const auto plan = device.layers().softmax_loss(spec);
  const std::vector<std::int32_t> labels = labels_for(spec);
  const std::vector<std::int32_t> others = labels_for(spec, 78);
  const Targets targets{.labels = labels, .valid = valid, .other_labels = others, .other_share = other_share};
  const Tensor x = test::tensor_of(device, {spec.batch, spec.classes}, logits);
  Tensor dx = test::tensor_of(device, {spec.batch, spec.classes}, std::vector<float>(logits.size(), 99.0F));
  Storage sums = test::storage_of(device, {1, 2, 3, 4});
  plan->forward(x, targets, sums.span());
  plan->backward(x, targets, 0.25F, dx);
  device.queue().synchronize();
  return {read(device, sums), read(device, dx)};
}

void expect_agreement(const SoftmaxLossSpec& spec, std::int64_t valid, int threads, double range,
                      float other_share = 0.0F) {
  const auto cpu = make_device({.kind = "cpu", .threads = threads});
  const auto oracle = make_device({.kind = "reference"});
  const std::vector<float> logits = values(spec.batch * spec.classes, 6, range);

  const Results actual = run(*cpu, spec, valid, logits, other_share);
  const Results expected = run(*oracle, spec, valid, logits, other_share);

  const std::string where = cat(spec.batch, "x", spec.classes, " valid ", valid, " threads ", threads,
                                " other share ", other_share);
  // The sum of the losses is rounded to float once; exp errs by 3e-7, sums of C terms by √C · eps.
  EXPECT_TRUE(test::within(actual.sums[sum_loss], expected.sums[sum_loss],
                           1e-6 * (static_cast<double>(valid) + std::abs(double{expected.sums[sum_loss]}))))
      << where;
  for (const std::size_t sum : {sum_top1, sum_top5, sum_samples}) {
    EXPECT_EQ(actual.sums[sum], expected.sums[sum]) << where << " sum " << sum;
  }
  EXPECT_TRUE(test::within(test::largest_difference(actual.gradient, expected.gradient), 0.0, 1e-6 * 0.25))
      << where;
}

TEST(CpuSoftmaxLoss, AgreesWithTheReferenceForManyShapes) {
  for (const int threads : {1, 2}) {
    for (const std::int64_t batch : {1, 2, 63, 256}) {
      for (const std::int64_t classes : {1, 2, 5, 10, 17, 1000}) {
        for (const float smoothing : {0.0F, 0.1F}) {
          expect_agreement({batch, classes, smoothing}, batch, threads, 3.0);
        }
      }
    }
  }
}

TEST(CpuSoftmaxLoss, LeavesPaddingRowsOutOfSumsAndGradient) {
  for (const std::int64_t valid : {0, 1, 5, 8}) expect_agreement({8, 10, 0.1F}, valid, 2, 3.0);

  const auto device = make_device({.kind = "cpu"});
  const Results results = run(*device, {3, 2, 0.0F}, 1, {0, 0, 7, 8, 9, 10});

  EXPECT_EQ(results.sums[sum_samples], 5.0F);
  EXPECT_EQ(std::vector<float>(results.gradient.begin() + 2, results.gradient.end()),
            std::vector<float>(4, 0.0F));
}

TEST(CpuSoftmaxLoss, AgreesWithTheReferenceForMixedLabels) {
  for (const float share : {0.25F, 0.5F, 1.0F}) {
    for (const float smoothing : {0.0F, 0.1F}) {
      expect_agreement({63, 17, smoothing}, 63, 2, 3.0, share);
      expect_agreement({8, 10, smoothing}, 5, 1, 3.0, share);
      expect_agreement({16, 12, smoothing}, 16, 1, 1000.0, share);
    }
  }
}

TEST(CpuSoftmaxLoss, GivesTheSameBitsWithoutAShareAsWithoutOtherLabels) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const std::vector<float> logits = values(63 * 17, 6);
    const Results with = run(*device, {63, 17, 0.1F}, 60, logits);
    const auto plan = device->layers().softmax_loss({63, 17, 0.1F});
    const std::vector<std::int32_t> labels = labels_for({63, 17, 0.1F});
    Tensor x = test::tensor_of(*device, {63, 17}, logits);
    Storage sums = test::storage_of(*device, {1, 2, 3, 4});

    plan->forward(x, {.labels = labels, .valid = 60}, sums.span());
    plan->backward(x, {.labels = labels, .valid = 60}, 0.25F, x);

    EXPECT_EQ(read(*device, sums), with.sums) << kind;
    EXPECT_EQ(read(*device, x), with.gradient) << kind;
  }
}

TEST(CpuSoftmaxLoss, CountsMixedRowsAgainstTheFirstLabel) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const auto plan = device->layers().softmax_loss({.batch = 2, .classes = 2});
    const std::vector<std::int32_t> labels = {0, 1};
    const std::vector<std::int32_t> others = {1, 0};
    const Tensor x = test::tensor_of(*device, {2, 2}, {3, 1, 3, 1});
    Storage sums = device->memory().allocate(loss_sums);

    plan->forward(x, {labels, 2, others, 0.75F}, sums.span());

    // ln(e³ + e) less the targets' logits: (3 + 3 · 1) / 4 in row 0, (1 + 3 · 3) / 4 in row 1.
    const std::vector<float> result = read(*device, sums);
    EXPECT_EQ(result[sum_top1], 1.0F) << kind;
    EXPECT_TRUE(
        test::within(result[sum_loss], 2.0 * std::log(std::exp(3.0) + std::exp(1.0)) - 1.5 - 2.5, 1e-5))
        << kind;
  }
}

TEST(CpuSoftmaxLoss, ManagesLargeLogits) {
  expect_agreement({16, 12, 0.0F}, 16, 1, 1000.0);
  expect_agreement({16, 12, 0.1F}, 16, 1, 1000.0);
}

TEST(CpuSoftmaxLoss, BreaksTiesInFavourOfTheLowerClass) {
  for (const char* kind : {"cpu", "reference"}) {
    const auto device = make_device({.kind = kind});
    const auto plan = device->layers().softmax_loss({.batch = 3, .classes = 7});
    const std::vector<std::int32_t> labels = {0, 1, 5};
    const Tensor x = device->tensors().zeros({3, 7});  // all logits equal
    Storage sums = device->memory().allocate(loss_sums);

    plan->forward(x, {.labels = labels, .valid = 3}, sums.span());

    const std::vector<float> result = read(*device, sums);
    EXPECT_EQ(result[sum_top1], 1.0F) << kind;  // only class 0 comes first
    EXPECT_EQ(result[sum_top5], 2.0F) << kind;  // class 5 is the sixth
    EXPECT_TRUE(test::within(result[sum_loss], 3.0 * std::log(7.0), 1e-5)) << kind;
  }
}

TEST(CpuSoftmaxLoss, KeepsNotANumberVisible) {
  const auto device = make_device({.kind = "cpu"});
  std::vector<float> logits(20, 1.0F);
  logits[7] = std::numeric_limits<float>::quiet_NaN();

  const Results results = run(*device, {1, 20, 0.0F}, 1, logits);

  EXPECT_TRUE(std::isnan(results.sums[sum_loss]));
  EXPECT_TRUE(std::isnan(results.gradient[0]));
}

TEST(CpuSoftmaxLoss, MayWriteTheGradientOverTheLogits) {
  const auto device = make_device({.kind = "cpu"});
  const SoftmaxLossSpec spec{4, 10, 0.1F};
  const std::vector<float> logits = values(40, 6);
  const Results apart = run(*device, spec, 4, logits);
  const auto plan = device->layers().softmax_loss(spec);
  const std::vector<std::int32_t> labels = labels_for(spec);
  Tensor x = test::tensor_of(*device, {4, 10}, logits);
  Storage sums = device->memory().allocate(loss_sums);

  plan->forward(x, {.labels = labels, .valid = 4}, sums.span());
  plan->backward(x, {.labels = labels, .valid = 4}, 0.25F, x);

  EXPECT_EQ(read(*device, x), apart.gradient);
}

TEST(CpuSoftmaxLoss, RefusesLabelsOutsideTheClasses) {
  const auto device = make_device({.kind = "cpu"});
  const auto plan = device->layers().softmax_loss({.batch = 2, .classes = 10});
  const Tensor x = device->tensors().zeros({2, 10});
  Storage sums = device->memory().allocate(loss_sums);
  const std::vector<std::int32_t> labels = {9, 10};

  EXPECT_THROW(plan->forward(x, {.labels = labels, .valid = 2}, sums.span()), InternalError);
  EXPECT_NO_THROW(plan->forward(x, {.labels = labels, .valid = 1}, sums.span()));
  EXPECT_THROW(plan->forward(x, {labels, 1, {}, 0.5F}, sums.span()), InternalError);
  EXPECT_THROW(plan->forward(x, {labels, 1, std::span(labels).subspan(1), 0.5F}, sums.span()), InternalError);
  EXPECT_THROW(plan->forward(x, {labels, 1, labels, 1.5F}, sums.span()), InternalError);
}

}  // namespace
}  // namespace flotilla
