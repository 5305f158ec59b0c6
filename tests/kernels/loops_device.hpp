// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device.hpp"
#include "kernels/device_loops/device_loops.hpp"

namespace flotilla::test {

/// DeviceLoops on the host's serial Kokkos: the kernels of a GPU, where there is none. Starts Kokkos.
std::unique_ptr<DeviceLoops> serial_loops();

/// A device of nothing but these loops, with NHWC images of this precision. No products.
std::unique_ptr<Device> loops_device(Precision precision = Precision::float32);

/// `values` as `precision` holds them.
std::vector<float> rounded(Precision precision, std::vector<float> values);

/// 2^-p of p significant bits: the largest relative error of rounding.
double rounding_error(Precision precision);

}  // namespace flotilla::test
