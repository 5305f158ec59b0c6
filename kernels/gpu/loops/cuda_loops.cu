// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/driver.hpp"
#include "kernels/gpu/loops/cuda_elements.hpp"
#include "kernels/gpu/loops/kokkos_loops.hpp"
#include "kernels/gpu/loops/queued_space.hpp"

namespace flotilla {

std::unique_ptr<DeviceLoops> make_cuda_loops(NativeStream stream, LoopMemory memory, WorkQueue* queue) {
  open_cuda_driver();
  start_kokkos(stream.ordinal);
  using Space = loops::QueuedSpace<Kokkos::Cuda>;
  const Space space(Kokkos::Cuda(static_cast<cudaStream_t>(stream.handle)), queue);
  return std::make_unique<KokkosLoops<Space, loops::CudaElements>>(space, std::move(memory));
}

}  // namespace flotilla
