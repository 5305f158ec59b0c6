// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/driver.hpp"
#include "kernels/device_loops/cuda_elements.hpp"
#include "kernels/device_loops/kokkos_loops.hpp"

namespace flotilla {

std::unique_ptr<DeviceLoops> make_cuda_loops(NativeStream stream, LoopMemory memory) {
  open_cuda_driver();
  start_kokkos(stream.ordinal);
  using Loops = KokkosLoops<Kokkos::Cuda, loops::CudaElements>;
  return std::make_unique<Loops>(Kokkos::Cuda(static_cast<cudaStream_t>(stream.handle)), std::move(memory));
}

}  // namespace flotilla
