// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "kernels/cpu/native_precisions.hpp"
#include "kernels/half_rounding.hpp"
#include "kernels/reference/loops.hpp"
#include "tests/kernels/central_differences.hpp"
#include "tests/kernels/image_values.hpp"
#include "tests/kernels/output_losses.hpp"
#include "tests/kernels/tested_devices.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::all_output_losses;
using test::OutputLossCase;
using test::read;
using Kind = OutputLoss::Kind;

/// Runs a case on outputs rounded to `precision`: the reference device stores what it is given.
test::OutputLossResults run(Device& device, const OutputLossCase& of, bool in_place = false,
                            Precision precision = Precision::float32) {
  return test::run_output_loss(
      device, of, in_place,
      [&](const std::vector<float>& host) {
        Tensor made = device.tensors().zeros({of.spec.batch, of.spec.outputs});
        device.images().upload(test::rounded(precision, host), made);
        return made;
      },
      [&](const Tensor& tensor) { return test::read_image(device, tensor); });
}

class OutputLossOf : public test::EachDevice {
 protected:
  /// The gradient overwrites the outputs on the device, and gets memory of its own on the oracle.
  void expect_agreement(const OutputLossCase& of) const {
    const auto oracle = make_device({.kind = "reference"});
    test::expect_same_loss(run(*device, of, true, precision()), run(*oracle, of, false, precision()), of,
                           test::stored_apart(precision()));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, OutputLossOf, testing::ValuesIn(test::tested_devices_and_reference()),
                         test::name_of_device);

/// PyTorch 1.13.1's numbers in float64 (F.mse_loss, F.l1_loss, F.huber_loss with delta 0.75, and
/// F.binary_cross_entropy_with_logits, all with reduction="mean") for the outputs and targets below.
struct PytorchCase {
  OutputLoss function;
  double loss;
  std::vector<double> gradient;
};
const std::vector<double> outputs = {0.5, -1.25, 2.0, 30.0, -40.0, 0.0};
const std::vector<float> targets = {0.0F, 1.0F, 0.75F, 1.0F, 0.0F, 0.25F};

TEST(ReferenceOutputLoss, GivesThePytorchNumbers) {
  const std::vector<PytorchCase> cases = {
      {{.kind = Kind::mse},
       407.9895833333333,
       {0.16666666666666666, -0.75, 0.4166666666666667, 9.666666666666666, -13.333333333333334,
        -0.08333333333333333}},
      {{.kind = Kind::mae},
       12.208333333333334,
       {0.16666666666666666, -0.16666666666666666, 0.16666666666666666, 0.16666666666666666,
        -0.16666666666666666, -0.16666666666666666}},
      {{.kind = Kind::huber, .delta = 0.75F},
       8.901041666666666,
       {0.08333333333333333, -0.125, 0.125, 0.125, -0.125, -0.041666666666666664}},
      {{.kind = Kind::binary},
       0.6326802095214152,
       {0.10374322186697577, -0.12954997686244854, 0.02179951299631372, -1.5580129778906365e-14,
        7.080590425485981e-19, 0.041666666666666664}}};
  for (const PytorchCase& expected : cases) {
    SCOPED_TRACE(static_cast<int>(expected.function.kind));
    const OutputLossSpec spec{.batch = 3, .outputs = 2, .function = expected.function};
    std::vector<double> sums(loss_sums);
    std::vector<double> gradient(6);

    reference::output_loss_forward<double>(spec, outputs, {.labels = {}, .valid = 3, .values = targets},
                                           sums);
    reference::output_loss_backward<double>(spec, outputs, {.labels = {}, .valid = 3, .values = targets},
                                            1.0 / 3.0, gradient);

    // PyTorch takes the mean over the batch as well.
    EXPECT_TRUE(test::within(sums[sum_loss] / 3.0, expected.loss, 1e-14 * expected.loss));
    EXPECT_EQ(sums[sum_samples], 3.0);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      EXPECT_TRUE(
          test::within(gradient[i], expected.gradient[i], 1e-15 * (1.0 + std::abs(expected.gradient[i]))))
          << i;
  }
}

TEST(ReferenceOutputLoss, GradientsAreCentralDifferences) {
  for (const OutputLoss& function : all_output_losses) {
    const OutputLossSpec spec{.batch = 4, .outputs = 3, .function = function};
    const std::vector<float> wanted = test::output_targets(spec);
    const Targets given{.labels = {}, .valid = 3, .values = wanted};
    const std::vector<float> made = test::values(12, 6, 3.0);
    std::vector<double> at(made.begin(), made.end());
    const auto loss = [&] {
      std::vector<double> sums(loss_sums);
      reference::output_loss_forward<double>(spec, at, given, sums);
      return 0.5 * sums[sum_loss];
    };
    std::vector<double> gradient(12);

    reference::output_loss_backward<double>(spec, at, given, 0.5, gradient);

    test::expect_central_differences(gradient, at, loss, 1e-9, "outputs");
  }
}

TEST_P(OutputLossOf, AgreesWithTheReferenceForManyShapes) {
  for (const OutputLoss& function : all_output_losses)
    for (const std::int64_t batch : {1, 2, 63, 256, 300})
      for (const std::int64_t width : {1, 3, 5, 17, 129, 1000})
        expect_agreement({.spec = {batch, width, function}, .valid = batch - batch / 9});
}

TEST(CpuOutputLoss, AgreesWithTheReferenceInBfloat16) {
  if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
  for (const OutputLoss& function : all_output_losses) {
    const OutputLossCase of{.spec = {33, 21, function}, .valid = 30};
    const DeviceSpec cpu{.kind = "cpu", .threads = 2, .precision = Precision::bfloat16};
    const DeviceSpec oracle{.kind = "reference", .precision = Precision::bfloat16};
    test::expect_same_loss(run(*make_device(cpu), of, false, Precision::bfloat16),
                           run(*make_device(oracle), of, false, Precision::bfloat16), of, 0x1p-8);
  }
}

TEST_P(OutputLossOf, LeavesPaddingRowsOutOfSumsAndGradient) {
  for (const OutputLoss& function : all_output_losses)
    for (const std::int64_t valid : {0, 1, 5, 8})
      expect_agreement({.spec = {8, 3, function}, .valid = valid});

  const test::OutputLossResults results = run(*device, {.spec = {3, 2}, .valid = 1});
  EXPECT_EQ(results.sums[sum_samples], 5.0F);
  EXPECT_EQ(std::vector<float>(results.gradient.begin() + 2, results.gradient.end()),
            std::vector<float>(4, 0.0F));
}

TEST_P(OutputLossOf, GivesTheSameBitsInAnyOrder) {
  for (const OutputLoss& function : all_output_losses)
    for (const auto& [batch, width] : {std::pair(63, 5), std::pair(301, 170), std::pair(63, 1000)})
      expect_same_bits([&](Device& on) {
        const auto results = run(on, {.spec = {batch, width, function}, .valid = batch - 3});
        return std::pair(results.sums, results.gradient);
      });
}

TEST_P(OutputLossOf, MayWriteTheGradientOverTheOutputs) {
  for (const OutputLoss& function : all_output_losses) {
    const OutputLossCase of{.spec = {301, 170, function}, .valid = 290};

    EXPECT_EQ(run(*device, of, true).gradient, run(*device, of, false).gradient);
  }
}

TEST_P(OutputLossOf, NoLogitOverflowsTheBinaryLoss) {
  const auto plan = device->layers().output_loss({1, 4, {.kind = Kind::binary}});
  const std::vector<float> wanted = {0, 1, 0, 1};
  Tensor x = device->tensors().zeros({1, 4});
  device->images().upload(std::vector<float>{1e4F, 1e4F, -1e4F, -1e4F}, x);
  Storage sums = device->memory().allocate(loss_sums);

  plan->forward(x, {.labels = {}, .valid = 1, .values = wanted}, sums.span());
  plan->backward(x, {.labels = {}, .valid = 1, .values = wanted}, 4.0F, x);

  EXPECT_EQ(read(*device, sums)[sum_loss], half::rounded(precision(), 1e4F) / 2.0F);
  EXPECT_TRUE(test::within(test::largest_difference(test::read_image(*device, x), {1, 0, 0, -1}), 0.0, 1e-6));
}

TEST_P(OutputLossOf, MaeIsFlatWhereThereIsNoError) {
  const auto plan = device->layers().output_loss({1, 2, {.kind = Kind::mae}});
  const std::vector<float> wanted = {1, 0};
  Tensor x = device->tensors().zeros({1, 2});
  device->images().upload(wanted, x);
  Storage sums = device->memory().allocate(loss_sums);

  plan->forward(x, {.labels = {}, .valid = 1, .values = wanted}, sums.span());
  plan->backward(x, {.labels = {}, .valid = 1, .values = wanted}, 1.0F, x);

  EXPECT_EQ(test::read_image(*device, x), std::vector<float>(2, 0.0F));
}

TEST_P(OutputLossOf, KeepsNotANumberVisible) {
  for (const OutputLoss& function : all_output_losses) {
    const auto plan = device->layers().output_loss({1, 3, function});
    const std::vector<float> wanted = {0, 1, 0};
    Tensor x = device->tensors().zeros({1, 3});
    device->images().upload(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN(), 2}, x);
    Storage sums = device->memory().allocate(loss_sums);

    plan->forward(x, {.labels = {}, .valid = 1, .values = wanted}, sums.span());
    plan->backward(x, {.labels = {}, .valid = 1, .values = wanted}, 1.0F, x);

    EXPECT_TRUE(std::isnan(read(*device, sums)[sum_loss]));
    EXPECT_TRUE(std::isnan(test::read_image(*device, x)[1]));
  }
}

TEST_P(OutputLossOf, RefusesTargetsThatAreMissingOrMixed) {
  const auto plan = device->layers().output_loss({.batch = 2, .outputs = 3});
  const Tensor x = device->tensors().zeros({2, 3});
  Storage sums = device->memory().allocate(loss_sums);
  const std::vector<float> wanted(5);

  EXPECT_THROW(plan->forward(x, {.labels = {}, .valid = 2, .values = wanted}, sums.span()), InternalError);
  EXPECT_NO_THROW(plan->forward(x, {.labels = {}, .valid = 1, .values = wanted}, sums.span()));
  EXPECT_THROW(
      plan->forward(x, {.labels = {}, .valid = 1, .other_share = 0.5F, .values = wanted}, sums.span()),
      InternalError);
  EXPECT_THROW(device->layers().output_loss({2, 3, {.kind = Kind::huber, .delta = 0.0F}}), InternalError);
}

}  // namespace
}  // namespace flotilla
