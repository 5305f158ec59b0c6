// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace flotilla {

/// The device "reference": the oracle for tests of other devices. Plain loops in double on one thread.
/// With half precision the results are rounded where a GPU would have written halves (docs/precision.md); the
/// values lie in floats all the same.
/// @param half_weight_gradients in half precision the gradients of convolutions' weights are rounded, as
/// cuDNN writes them; false: they are not, as on the device "cpu"
std::unique_ptr<Device> make_reference_device(Precision precision, bool half_weight_gradients = true);

}  // namespace flotilla
