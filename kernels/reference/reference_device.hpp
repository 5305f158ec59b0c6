// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device.hpp"

namespace flotilla {

/// The device "reference": the oracle that others are compared with. Plain loops in double on one thread.
std::unique_ptr<Device> make_reference_device();

}  // namespace flotilla
