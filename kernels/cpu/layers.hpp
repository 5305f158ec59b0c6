// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/images.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// The choices made by a DeviceSpec.
struct CpuChoices {
  int threads = 1;
  Precision precision = Precision::float32;
  bool winograd = false;
};

/// Plans on the CPU: oneDNN's products, convolutions and pooling, own passes for the rest. `memory` and
/// `images` must outlive them.
std::unique_ptr<Layers> make_cpu_layers(const CpuChoices& choices, const HostMemory& memory,
                                        CpuImages& images);

}  // namespace flotilla
