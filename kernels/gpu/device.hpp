// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/device.hpp"

namespace flotilla {

/// The device "cuda": cuDNN, cuBLAS and Kokkos on one GPU.
/// @throws UserError where this build has none.
std::unique_ptr<Device> make_cuda_device(const DeviceSpec& spec);

std::string cuda_version();  ///< "CUDA 13.0, cuDNN 9.1", or "not built in".

}  // namespace flotilla
