// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/within.hpp"

namespace flotilla::test {

/// Every kind of loss of outputs that are numbers.
inline constexpr std::array all_output_losses = {OutputLoss{.kind = OutputLoss::Kind::mse},
                                                 OutputLoss{.kind = OutputLoss::Kind::mae},
                                                 OutputLoss{.kind = OutputLoss::Kind::huber, .delta = 0.75F},
                                                 OutputLoss{.kind = OutputLoss::Kind::binary}};

/// A batch for a loss, and how many of its rows count.
struct OutputLossCase {
  OutputLossSpec spec;
  std::int64_t valid = 0;
  double range = 3.0;  ///< Range of the outputs

  std::string text() const {
    return cat(spec.batch, "x", spec.outputs, " valid ", valid, " range ", range, " kind ",
               static_cast<int>(spec.function.kind));
  }
};

/// Sums that began as 1, 2, 3, 4, and the gradient of a quarter of the losses.
struct OutputLossResults {
  std::vector<float> sums, gradient;
};

/// Targets of labels in [0, 1], which all kinds take.
inline std::vector<float> output_targets(const OutputLossSpec& spec) {
  std::vector<float> targets = values(spec.batch * spec.outputs, 9, 0.5);
  for (float& target : targets) target += 0.5F;
  return targets;
}

/// Runs forward and backward on tensors that `make` uploads and `read_back` reads.
template <class Make, class ReadBack>
OutputLossResults run_output_loss(Device& device, const OutputLossCase& of, bool in_place, const Make& make,
                                  const ReadBack& read_back) {
  const std::vector<float> numbers = output_targets(of.spec);
  const Targets targets{.labels = {}, .valid = of.valid, .values = numbers};
  const auto plan = device.layers().output_loss(of.spec);
  const auto size = static_cast<std::size_t>(of.spec.batch * of.spec.outputs);
  Tensor outputs = make(values(static_cast<std::int64_t>(size), 6, of.range));
  Tensor other = make(std::vector<float>(size, 99.0F));
  Tensor& gradient = in_place ? outputs : other;
  Storage sums = storage_of(device, {1, 2, 3, 4, 5});
  plan->forward(outputs, targets, sums.span());
  plan->backward(outputs, targets, 0.25F, gradient);
  device.queue().synchronize();
  return {read(device, sums), read_back(gradient)};
}

/// @param rounding of values that are stored
inline void expect_same_loss(const OutputLossResults& actual, const OutputLossResults& expected,
                             const OutputLossCase& of, double rounding) {
  SCOPED_TRACE(of.text());
  // exp and tanh err by some 1e-7; a row's sum and the sum of the losses are rounded to float.
  EXPECT_TRUE(
      test::within(actual.sums[sum_loss], expected.sums[sum_loss],
                   2e-6 * (static_cast<double>(of.valid) + std::abs(double{expected.sums[sum_loss]}))));
  for (const std::size_t sum : {sum_top1, sum_top5, sum_samples})
    EXPECT_EQ(actual.sums[sum], expected.sums[sum]) << sum;
  // Slopes are at most 2 · (range + 1).
  EXPECT_TRUE(test::within(largest_difference(actual.gradient, expected.gradient), 0.0,
                           (2e-6 + rounding) * 0.5 * (of.range + 1.0)));
}

}  // namespace flotilla::test
