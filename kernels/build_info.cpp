// SPDX-License-Identifier: Apache-2.0
#include "kernels/build_info.hpp"

#include "kernels/cpu/device.hpp"
#include "kernels/gpu/device.hpp"
#include "kernels/gpu/loops/kokkos_scope.hpp"
#include "kernels/processor/processor.hpp"

namespace flotilla {

BuildInfo build_info() {
  return {.onednn = onednn_version(),
          .kokkos = kokkos_version(),
          .cuda = cuda_version(),
          .architecture = built_for()};
}

}  // namespace flotilla
