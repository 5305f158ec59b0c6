// SPDX-License-Identifier: Apache-2.0
#include "kernels/error.hpp"
#include "kernels/gpu/device.hpp"

namespace flotilla {

std::unique_ptr<Device> make_cuda_device(const DeviceSpec&) {
  throw UserError(
      "device.kind = \"cuda\" needs a build with CUDA, and this one has none: with the CUDA toolkit and "
      "cuDNN "
      "installed configure it with -DFLOTILLA_CUDA=ON (docs/gpu.md), or run with device.kind = \"cpu\"");
}

std::string cuda_version() {
  return "not built in";
}

}  // namespace flotilla
