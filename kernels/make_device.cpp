// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/device.hpp"
#include "kernels/device.hpp"
#include "kernels/error.hpp"
#include "kernels/gpu/device.hpp"
#include "kernels/reference/device.hpp"

namespace flotilla {

std::unique_ptr<Device> make_device(const DeviceSpec& spec) {
  require(spec.threads >= 1, "a device needs at least one thread, got ", spec.threads);
  if (spec.kind == "cpu") return make_cpu_device(spec);
  if (spec.kind == "reference") return make_reference_device(spec.precision);
  if (spec.kind == "cuda") return make_cuda_device(spec);
  throw UserError(
      cat("device.kind must be one of \"cpu\", \"cuda\", \"reference\", got \"", spec.kind, "\""));
}

}  // namespace flotilla
