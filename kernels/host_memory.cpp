// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_memory.hpp"

#include <cstring>
#include <new>

namespace flotilla {

Storage HostMemory::allocate(std::size_t count) const {
  if (count == 0) return {};
  constexpr std::align_val_t cache_line{64};
  const std::size_t bytes = count * sizeof(float);
  void* memory = ::operator new(bytes, cache_line);
  // Zeroed here, by the thread that will use it: pages lie near its core.
  std::memset(memory, 0, bytes);
  const auto signed_bytes = static_cast<std::int64_t>(bytes);
  *bytes_ += signed_bytes;
  return {static_cast<float*>(memory), count, [counter = bytes_, signed_bytes](float* address) {
            ::operator delete(address, cache_line);
            *counter -= signed_bytes;
          }};
}

}  // namespace flotilla
