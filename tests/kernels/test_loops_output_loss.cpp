// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/kernels/image_values.hpp"
#include "tests/kernels/loops_device.hpp"
#include "tests/kernels/output_losses.hpp"

namespace flotilla {
namespace {

using test::all_output_losses;
using test::OutputLossCase;

test::OutputLossResults run_loss(Device& device, const OutputLossCase& of, Precision precision,
                                 bool in_place) {
  return test::run_output_loss(
      device, of, in_place,
      [&](std::vector<float> host) {
        Tensor made = device.tensors().zeros({of.spec.batch, of.spec.outputs});
        device.images().upload(test::rounded(precision, std::move(host)), made);
        return made;
      },
      [&](const Tensor& tensor) { return test::read_image(device, tensor); });
}

TEST(LoopsOutputLoss, AgreesWithTheReferenceForManyShapes) {
  const auto oracle = make_device({.kind = "reference"});
  for (const Precision precision : {Precision::float32, Precision::float16, Precision::bfloat16}) {
    const auto loops = test::loops_device(precision);
    for (const OutputLoss& function : all_output_losses) {
      for (const std::int64_t batch : {1, 63, 300})
        for (const std::int64_t outputs : {1, 5, 129, 1000}) {
          const OutputLossCase of{.spec = {batch, outputs, function}, .valid = batch - batch / 9};
          test::expect_same_loss(
              run_loss(*loops, of, precision, true), run_loss(*oracle, of, precision, false), of,
              precision == Precision::float32 ? 0.0 : 2.0 * test::rounding_error(precision));
        }
    }
  }
}

TEST(LoopsOutputLoss, LeavesPaddingRowsOut) {
  const auto loops = test::loops_device();
  const auto oracle = make_device({.kind = "reference"});
  for (const std::int64_t valid : {0, 1, 8}) {
    const OutputLossCase of{.spec = {8, 3}, .valid = valid};
    test::expect_same_loss(run_loss(*loops, of, Precision::float32, false),
                           run_loss(*oracle, of, Precision::float32, false), of, 0.0);
  }
}

TEST(LoopsOutputLoss, GivesTheSameBitsInAnyOrderOfLanes) {
  const auto loops = test::loops_device();
  for (const std::int64_t outputs : {5, 1000})
    test::expect_equal_in_any_order([&] {
      const OutputLossCase of{.spec = {63, outputs}, .valid = 60};
      const test::OutputLossResults results = run_loss(*loops, of, Precision::float32, false);
      return std::pair(results.sums, results.gradient);
    });
}

}  // namespace
}  // namespace flotilla
