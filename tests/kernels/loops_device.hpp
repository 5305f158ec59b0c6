// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "kernels/device.hpp"
#include "kernels/gpu/loops/device_loops.hpp"

namespace flotilla::test {

/// DeviceLoops on the host's serial Kokkos: the kernels of a GPU, where there is none, with their lanes in
/// random order (shuffled_order.hpp). Starts Kokkos.
std::unique_ptr<DeviceLoops> serial_loops();

/// A device of nothing but these loops, with NHWC images of this precision. No products.
std::unique_ptr<Device> loops_device(Precision precision = Precision::float32);

/// Expects that run() gives the same results, of any type, in many orders of the lanes.
template <class Run>
void expect_equal_in_any_order(const Run& run) {
  const auto first = run();
  for (int again = 0; again < 4; ++again) EXPECT_TRUE(run() == first) << "in order " << again;
}

}  // namespace flotilla::test
