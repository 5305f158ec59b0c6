// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/device.hpp"

namespace flotilla {

/// The device "cpu": matrix products of oneDNN, own vectorised passes between them, OpenMP threads.
std::unique_ptr<Device> make_cpu_device(const DeviceSpec& spec);

std::string onednn_version();  ///< "2.6.3", of the library that was loaded.

}  // namespace flotilla
