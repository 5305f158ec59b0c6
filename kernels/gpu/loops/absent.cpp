// SPDX-License-Identifier: Apache-2.0
#include "kernels/error.hpp"
#include "kernels/gpu/loops/device_loops.hpp"
#include "kernels/gpu/loops/kokkos_scope.hpp"

namespace flotilla {

std::unique_ptr<DeviceLoops> make_cuda_loops(NativeStream, LoopMemory, WorkQueue*) {
  throw UserError(
      "device.kind = \"cuda\" needs a Kokkos that was built with CUDA, and this program was built without: "
      "build Kokkos 4.7 or later with Kokkos_ENABLE_CUDA=ON (docs/gpu.md), and configure Flotilla with "
      "-DFLOTILLA_CUDA=ON -DKokkos_ROOT=<where it is installed>, or run with device.kind = \"cpu\"");
}

KokkosScope::KokkosScope() = default;
KokkosScope::~KokkosScope() = default;

std::string kokkos_version() {
  return "not built in";
}

}  // namespace flotilla
