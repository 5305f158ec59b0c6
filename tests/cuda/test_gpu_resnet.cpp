// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/cuda/on_gpu.hpp"
#include "tests/models/resnet_support.hpp"

namespace flotilla {
namespace {

using test::relative_difference;
using test::ResnetRun;

ResnetSpec small(std::int64_t depth) {
  return {.depth = depth, .input = {2, 3, 32, 32}, .classes = 10};
}

class CudaResnet : public test::OnGpu {};

// Rounding differs in the order of sums only; with two values per channel in layer4 it grows.
TEST_F(CudaResnet, ComputesWhatTheReferenceComputes) {
  ResnetRun reference("reference", small(18));
  ResnetRun gpu("cuda", small(18));

  const double reference_loss = reference.step();
  const double gpu_loss = gpu.step();

  EXPECT_NEAR(gpu_loss, reference_loss, 1e-4 * reference_loss);
  EXPECT_LT(relative_difference(gpu.logits(), reference.logits()), 1e-4);
  EXPECT_LT(relative_difference(gpu.plain_gradients(), reference.plain_gradients()), 2e-3);
  EXPECT_LT(relative_difference(gpu.step_statistics(), reference.step_statistics()), 1e-5);
}

// With running statistics: batch statistics of so few values would enlarge rounding.
TEST_F(CudaResnet, EvaluatesBottlenecksAsTheReferenceDoes) {
  ResnetSpec spec = small(50);
  spec.purpose = Purpose::inference;
  ResnetRun reference("reference", spec);
  ResnetRun gpu("cuda", spec);

  reference.loss(Pass::inference);
  gpu.loss(Pass::inference);

  EXPECT_LT(relative_difference(gpu.logits(), reference.logits()), 1e-5);
}

}  // namespace
}  // namespace flotilla
