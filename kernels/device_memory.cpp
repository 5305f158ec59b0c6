// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_memory.hpp"

#include "kernels/host_memory.hpp"

namespace flotilla {

Storage DeviceMemory::pinned(std::size_t count) const {
  return HostMemory().allocate(count);
}

}  // namespace flotilla
