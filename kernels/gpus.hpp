// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace flotilla {

struct GpuInfo {
  std::string name;    ///< "NVIDIA H100 80GB HBM3"
  std::string pci_id;  ///< "0000:3b:00.0", as in /sys/bus/pci/devices: the same for every process of the host
};

/// The GPUs that this process sees, in the order of their ordinals (DeviceSpec::ordinal). Takes none of their
/// memory.
/// @throws UserError as make_device() for "cuda" where this build has no such device, LibraryError where the
/// driver does not answer
std::vector<GpuInfo> visible_gpus();

}  // namespace flotilla
