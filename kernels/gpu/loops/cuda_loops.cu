// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/gpu/driver.hpp"
#include "kernels/gpu/loops/elements.hpp"
#include "kernels/gpu/loops/kokkos_loops.hpp"
#include "kernels/gpu/loops/queued_space.hpp"

namespace flotilla::loops {

// elements.hpp with a GPU's own conversions, one instruction each, to the same values. A bfloat16 becomes a
// float by a shift, which the compiler may move: __bfloat162float took up to 12 registers more.

struct CudaFloat16 {
  static constexpr Precision precision = Precision::float16;
  std::uint16_t bits;
  KOKKOS_INLINE_FUNCTION static CudaFloat16 of(float value) {
    return {__half_as_ushort(__float2half_rn(value))};
  }
  KOKKOS_INLINE_FUNCTION float value() const { return __half2float(__ushort_as_half(bits)); }
};

struct CudaBfloat16 {
  static constexpr Precision precision = Precision::bfloat16;
  std::uint16_t bits;
  KOKKOS_INLINE_FUNCTION static CudaBfloat16 of(float value) {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
  }
  KOKKOS_INLINE_FUNCTION float value() const { return half::float_of_bfloat16(bits); }
};

struct CudaElements {
  using Float16 = CudaFloat16;
  using Bfloat16 = CudaBfloat16;
};

}  // namespace flotilla::loops

namespace flotilla {

std::unique_ptr<DeviceLoops> make_cuda_loops(NativeStream stream, LoopMemory memory, WorkQueue* queue) {
  open_cuda_driver();
  start_kokkos(stream.ordinal);
  using Space = loops::QueuedSpace<Kokkos::Cuda>;
  const Space space(Kokkos::Cuda(static_cast<cudaStream_t>(stream.handle)), queue);
  return std::make_unique<KokkosLoops<Space, loops::CudaElements>>(space, std::move(memory));
}

}  // namespace flotilla
