// SPDX-License-Identifier: Apache-2.0
#include "kernels/build_info.hpp"

#include "kernels/cudnn/device.hpp"
#include "kernels/device_loops/kokkos_scope.hpp"
#include "kernels/onednn/device.hpp"
#include "kernels/processor/processor.hpp"

namespace flotilla {

BuildInfo build_info() {
  return {.onednn = onednn_version(),
          .kokkos = kokkos_version(),
          .cuda = cuda_version(),
          .architecture = built_for()};
}

}  // namespace flotilla
