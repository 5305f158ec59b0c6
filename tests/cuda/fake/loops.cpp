// SPDX-License-Identifier: Apache-2.0
// The loops of a GPU on the serial Kokkos: the fake GPU's memory is the host's.
#include "kernels/device_loops/launch.hpp"
#include "tests/cuda/fake/cudart.hpp"

namespace flotilla::loops {

template <>
struct Queue<Kokkos::Serial> {
  template <class Launch>
  static void put(const Launch& launch) {
    fake::in_stream(launch);
  }
};

}  // namespace flotilla::loops

#include "kernels/device_loops/kokkos_loops.hpp"
#include "kernels/kokkos_scope.hpp"

namespace flotilla {

std::unique_ptr<DeviceLoops> make_cuda_loops(NativeStream, LoopMemory memory) {
  start_kokkos(-1);
  return std::make_unique<KokkosLoops<Kokkos::Serial, loops::PortableElements>>(Kokkos::Serial(),
                                                                                std::move(memory));
}

}  // namespace flotilla
