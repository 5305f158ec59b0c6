// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/cpu/images.hpp"
#include "kernels/device.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// The choices made by a DeviceSpec.
struct CpuChoices {
  int threads = 1;
  Precision precision = Precision::float32;
  WinogradUse winograd = WinogradUse::never;
};

/// Plans on the CPU: oneDNN's products, convolutions and pooling, own passes for the rest. `memory`, `images`
/// and `description` must outlive them. Each convolution to which Winograd's algorithm applies adds to the
/// device's description: "…, Winograd for 36 of 39 passes of 3x3 convolutions".
std::unique_ptr<Layers> make_cpu_layers(const CpuChoices& choices, const HostMemory& memory,
                                        CpuImages& images, std::string& description);

}  // namespace flotilla
