// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cuda/gpu_values.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/models/resnet_support.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

using test::relative_difference;
using test::ResnetRun;

class CudaResnet : public test::OnGpu {};

/// What one step leaves.
struct Step {
  /// @param lifted for float32 only: halves have few bits left for what that adds
  Step(const std::string& device, Precision precision, bool lifted = true) {
    ResnetRun run(device, {.model = {.depth = 18, .outputs = 10}, .input = {4, 3, 32, 32}}, 0, 1, precision);
    if (lifted) run.lift_above_zero();
    loss = {static_cast<float>(run.step())};
    logits = run.logits();
    gradients = run.plain_gradients();
    gradient_of_first = gradients;
    gradient_of_first.resize(std::size_t{64} * 3 * 7 * 7);
    statistics = run.step_statistics();
  }

  std::vector<float> loss, logits, gradients, statistics;
  std::vector<float> gradient_of_first;  ///< Gradient of the first weight, to which all layers contribute
};

// Rounding differs in the order of sums only; with four values per channel in layer4 it grows, as on the CPU
// (tests/models/test_resnet.cpp).
TEST_F(CudaResnet, ComputesWhatTheReferenceComputes) {
  const Step gpu("cuda", Precision::float32);
  const Step reference("reference", Precision::float32);

  EXPECT_TRUE(test::within(relative_difference(gpu.loss, reference.loss), 0.0, 1e-4));
  EXPECT_TRUE(test::within(relative_difference(gpu.logits, reference.logits), 0.0, 1e-4));
  EXPECT_TRUE(test::within(relative_difference(gpu.gradients, reference.gradients), 0.0, 2e-3));
  EXPECT_TRUE(test::within(relative_difference(gpu.statistics, reference.statistics), 0.0, 1e-5));
}

// Halves round to another neighbour where sums of another order lie on the other side of the middle: two
// networks of halves then come as far apart as either is from float32.
TEST_F(CudaResnet, IsAsNearToFloat32InHalfPrecisionAsTheReference) {
  const Step exact("reference", Precision::float32, false);
  for (const Precision precision : {Precision::float16, Precision::bfloat16}) {
    SCOPED_TRACE(name(precision));
    const Step gpu("cuda", precision, false);
    const Step reference("reference", precision, false);
    const auto expect_near = [&](const char* what, std::vector<float> Step::*values) {
      EXPECT_TRUE(test::within(relative_difference(gpu.*values, exact.*values), 0.0,
                               3.0 * relative_difference(reference.*values, exact.*values)))
          << what;
    };
    expect_near("logits", &Step::logits);
    expect_near("gradients", &Step::gradients);
    expect_near("gradient of the first weight", &Step::gradient_of_first);
    expect_near("statistics", &Step::statistics);
  }
}

}  // namespace
}  // namespace flotilla
