// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/cuda/on_gpu.hpp"
#include "tests/models/resnet_support.hpp"

namespace flotilla {
namespace {

using test::relative_difference;
using test::ResnetRun;

class CudaResnet : public test::OnGpu {};

// Rounding differs in the order of sums only; with four values per channel in layer4 it grows, as on the CPU
// (tests/models/test_resnet.cpp).
TEST_F(CudaResnet, ComputesWhatTheReferenceComputes) {
  const ResnetSpec spec{.depth = 18, .input = {4, 3, 32, 32}, .classes = 10};
  ResnetRun reference("reference", spec);
  ResnetRun gpu("cuda", spec);

  const double reference_loss = reference.step();
  const double gpu_loss = gpu.step();

  EXPECT_NEAR(gpu_loss, reference_loss, 1e-4 * reference_loss);
  EXPECT_LT(relative_difference(gpu.logits(), reference.logits()), 1e-4);
  EXPECT_LT(relative_difference(gpu.plain_gradients(), reference.plain_gradients()), 2e-3);
  EXPECT_LT(relative_difference(gpu.step_statistics(), reference.step_statistics()), 1e-5);
}

}  // namespace
}  // namespace flotilla
