// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/kernels/tested_devices.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::read;
using test::read_image;
using test::rounded;
using test::values;

struct Case {
  SoftmaxLossSpec spec;
  std::int64_t valid = 0;
  double range = 3.0;  ///< Range of the logits
  float other_share = 0.0F;
};

/// Sums that began as 1, 2, 3, 4, 5, and the gradient of a quarter of the losses.
struct Results {
  std::vector<float> sums, gradient;
  friend bool operator==(const Results&, const Results&) = default;
};

std::vector<std::int32_t> labels_for(const SoftmaxLossSpec& spec, std::uint64_t stream = 77) {
  Random random(5, random_data, stream);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(spec.batch));
  for (std::int32_t& label : labels)
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(spec.classes)));
  return labels;
}

/// Plain rows, of whatever precision the device has.
Tensor rows_of(Device& device, const Shape& shape, const std::vector<float>& values) {
  Tensor made = device.tensors().zeros(shape);
  device.images().upload(values, made);
  return made;
}

/// @param in_place the gradient is written over the logits
Results run(Device& device, const SoftmaxLossSpec& spec, const Targets& targets,
            const std::vector<float>& logits, bool in_place) {
  const Shape shape{spec.batch, spec.classes};
  const auto plan = device.layers().softmax_loss(spec);
  Tensor x = rows_of(device, shape, logits);
  Tensor other = rows_of(device, shape, test::filled(shape.size(), 99.0F));
  Tensor& gradient = in_place ? x : other;
  Storage sums = test::storage_of(device, {1, 2, 3, 4, 5});
  plan->forward(x, targets, sums.span());
  plan->backward(x, targets, 0.25F, gradient);
  device.queue().synchronize();
  return {read(device, sums), read_image(device, gradient)};
}

class SoftmaxLossOf : public test::EachDevice {
 protected:
  /// Runs a case with random logits that the precision represents exactly, and random labels.
  Results run_case(Device& on, const Case& of, bool in_place) const {
    const std::vector<std::int32_t> labels = labels_for(of.spec);
    const std::vector<std::int32_t> others = labels_for(of.spec, 78);
    const std::vector<float> logits = values(of.spec.batch * of.spec.classes, 6, of.range);
    return run(on, of.spec,
               {.labels = labels, .valid = of.valid, .other_labels = others, .other_share = of.other_share},
               rounded(precision(), logits), in_place);
  }
  void expect_agreement(const Case& of) const {
    SCOPED_TRACE(cat(of.spec.batch, "x", of.spec.classes, " valid ", of.valid, " range ", of.range,
                     " other share ", of.other_share));
    const auto oracle = make_device({.kind = "reference"});

    const Results actual = run_case(*device, of, true);
    const Results expected = run_case(*oracle, of, false);

    // The sum of the losses is rounded to float once; exp errs by 3e-7, sums of C terms by √C · eps;
    // gradients are rounded when they are written.
    EXPECT_TRUE(
        test::within(actual.sums[sum_loss], expected.sums[sum_loss],
                     1e-6 * (static_cast<double>(of.valid) + std::abs(double{expected.sums[sum_loss]}))));
    for (const std::size_t sum : {sum_top1, sum_top5, sum_samples, sum_weights})
      EXPECT_EQ(actual.sums[sum], expected.sums[sum]) << sum;
    EXPECT_TRUE(test::within(test::largest_difference(actual.gradient, expected.gradient), 0.0,
                             (1e-6 + test::stored_apart(precision())) * 0.25));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, SoftmaxLossOf, testing::ValuesIn(test::tested_devices_and_reference()),
                         test::name_of_device);

TEST_P(SoftmaxLossOf, AgreesWithTheReferenceForManyShapes) {
  for (const std::int64_t batch : {1, 2, 63, 256, 300})
    for (const std::int64_t classes : {1, 2, 5, 10, 17, 129, 1000})
      for (const float smoothing : {0.0F, 0.1F})
        expect_agreement({.spec = {batch, classes, smoothing}, .valid = batch});
}

std::vector<float> weights_for(std::int64_t classes) {
  std::vector<float> weights;  // halves: their sums are exact
  for (std::int64_t c = 0; c < classes; ++c) weights.push_back(0.5F * static_cast<float>(1 + c % 7));
  return weights;
}

TEST_P(SoftmaxLossOf, AgreesWithTheReferenceForWeightsOfClasses) {
  for (const std::int64_t classes : {2, 17, 129})
    expect_agreement(
        {.spec = {.batch = 63, .classes = classes, .class_weights = weights_for(classes)}, .valid = 60});
}

TEST_P(SoftmaxLossOf, GivesPyTorchsWeightedCrossEntropy) {
  // torch.nn.CrossEntropyLoss(weight) of PyTorch 1.13.1 in double: the mean divides by the weights of the
  // labels.
  const std::vector<float> logits = {0.5F, -1.0F, 2.0F, 1.5F,  0.25F,  -0.5F, -2.0F, 0.75F,
                                     1.0F, 0.0F,  3.0F, -1.0F, 0.125F, 0.5F,  -0.25F};
  const std::vector<std::int32_t> labels = {2, 0, 1, 1, 2};
  const std::vector<double> gradient = {0.05609292548481174,   0.012516023446619983,  -0.06860894893143173,
                                        -0.011867440959129043, 0.008060113113162038,  0.0038073278459669997,
                                        0.004356329356879573,  -0.09185554350405063,  0.08749921414717106,
                                        0.007458019612475822,  -0.010201671699759078, 0.0027436520872832623,
                                        0.10183686030060557,   0.14817175742905422,   -0.2500086177296598};
  const Results results = run(*device, {.batch = 5, .classes = 3, .class_weights = {0.5F, 2.0F, 4.0F}},
                              {.labels = labels, .valid = 5}, logits, false);
  const double weights = double{results.sums[sum_weights]} - 5.0;
  EXPECT_EQ(weights, 12.5);
  EXPECT_TRUE(test::within((double{results.sums[sum_loss]} - 1.0) / weights, 0.7247897935363025, 1e-6));
  for (std::size_t i = 0; i < gradient.size(); ++i)
    EXPECT_TRUE(test::within(double{results.gradient[i]} / (0.25 * weights), gradient[i],
                             1e-6 + test::stored_apart(precision())));
}

TEST_P(SoftmaxLossOf, RefusesWeightsOfOtherNumbersAndWithSmoothing) {
  EXPECT_THROW(device->layers().softmax_loss({.batch = 2, .classes = 3, .class_weights = {1.0F, 1.0F}}),
               InternalError);
  EXPECT_THROW(device->layers().softmax_loss(
                   {.batch = 2, .classes = 2, .label_smoothing = 0.1F, .class_weights = {1.0F, 1.0F}}),
               InternalError);
}

TEST_P(SoftmaxLossOf, LeavesPaddingRowsOutOfSumsAndGradient) {
  for (const std::int64_t valid : {0, 1, 5, 8}) expect_agreement({.spec = {8, 10, 0.1F}, .valid = valid});

  const SoftmaxLossSpec spec{3, 2, 0.0F};
  const std::vector<std::int32_t> labels = labels_for(spec);
  const Results results =
      run(*device, spec, {.labels = labels, .valid = 1}, {0, 0, 7, 8, 9, 10}, /*in_place=*/false);

  EXPECT_EQ(results.sums[sum_samples], 5.0F);
  EXPECT_EQ(std::vector<float>(results.gradient.begin() + 2, results.gradient.end()),
            std::vector<float>(4, 0.0F));
}

TEST_P(SoftmaxLossOf, AgreesWithTheReferenceForMixedLabels) {
  for (const float share : {0.25F, 0.5F, 1.0F}) {
    for (const float smoothing : {0.0F, 0.1F}) {
      expect_agreement({.spec = {63, 17, smoothing}, .valid = 63, .other_share = share});
      expect_agreement({.spec = {8, 10, smoothing}, .valid = 5, .other_share = share});
      expect_agreement({.spec = {16, 12, smoothing}, .valid = 16, .range = 1000.0, .other_share = share});
      expect_agreement({.spec = {16, 12, smoothing}, .valid = 5, .range = 1000.0, .other_share = share});
    }
  }
}

TEST_P(SoftmaxLossOf, GivesTheSameBitsWithoutAShareAsWithoutOtherLabels) {
  const Case of{.spec = {63, 17, 0.1F}, .valid = 60};
  const std::vector<std::int32_t> labels = labels_for(of.spec);
  const std::vector<float> logits = rounded(precision(), values(63 * 17, 6, of.range));

  EXPECT_EQ(run(*device, of.spec, {.labels = labels, .valid = 60}, logits, true),
            run_case(*device, of, true));
}

TEST_P(SoftmaxLossOf, GivesTheSameBitsInAnyOrder) {
  for (const std::int64_t classes : {10, 1000})
    expect_same_bits([&](Device& on) {
      return run_case(on, {.spec = {63, classes, 0.1F}, .valid = 60, .other_share = 0.25F}, false);
    });
}

TEST_P(SoftmaxLossOf, MayWriteTheGradientOverTheLogits) {
  const Case of{.spec = {4, 10, 0.1F}, .valid = 4};

  EXPECT_EQ(run_case(*device, of, true), run_case(*device, of, false));
}

TEST_P(SoftmaxLossOf, CountsMixedRowsAgainstTheFirstLabel) {
  const std::vector<std::int32_t> labels = {0, 1};
  const std::vector<std::int32_t> others = {1, 0};

  const std::vector<float> sums =
      run(*device, {.batch = 2, .classes = 2}, {labels, 2, others, 0.75F}, {3, 1, 3, 1}, false).sums;

  // ln(e³ + e) less the targets' logits: (3 + 3 · 1) / 4 in row 0, (1 + 3 · 3) / 4 in row 1.
  EXPECT_EQ(sums[sum_top1], 2.0F + 1.0F);
  EXPECT_TRUE(
      test::within(sums[sum_loss], 1.0 + 2.0 * std::log(std::exp(3.0) + std::exp(1.0)) - 1.5 - 2.5, 1e-5));
}

TEST_P(SoftmaxLossOf, ManagesLargeLogits) {
  for (const float smoothing : {0.0F, 0.1F})
    expect_agreement({.spec = {16, 12, smoothing}, .valid = 16, .range = 1000.0});
}

TEST_P(SoftmaxLossOf, BreaksTiesInFavourOfTheLowerClass) {
  const std::vector<std::int32_t> labels = {0, 1, 5};

  const std::vector<float> sums =
      run(*device, {.batch = 3, .classes = 7}, {.labels = labels, .valid = 3}, test::filled(21, 0.0F), false)
          .sums;

  EXPECT_EQ(sums[sum_top1], 2.0F + 1.0F);  // only class 0 comes first
  EXPECT_EQ(sums[sum_top5], 3.0F + 2.0F);  // class 5 is the sixth
  EXPECT_TRUE(test::within(sums[sum_loss], 1.0 + 3.0 * std::log(7.0), 1e-5));
}

TEST_P(SoftmaxLossOf, KeepsNotANumberAndInfinityVisible) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const std::vector<std::int32_t> labels = {0};
    std::vector<float> logits(20, 1.0F);
    logits[7] = bad;

    const Results results =
        run(*device, {.batch = 1, .classes = 20}, {.labels = labels, .valid = 1}, logits, false);

    EXPECT_TRUE(std::isnan(results.sums[sum_loss])) << bad;
    EXPECT_TRUE(std::isnan(results.gradient[0])) << bad;
  }
}

TEST_P(SoftmaxLossOf, RefusesLabelsOutsideTheClasses) {
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
