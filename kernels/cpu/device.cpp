// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/device.hpp"

#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/conv2d.hpp"
#include "kernels/cpu/images.hpp"
#include "kernels/cpu/layers.hpp"
#include "kernels/cpu/native_precisions.hpp"
#include "kernels/cpu/tensors.hpp"
#include "kernels/error.hpp"
#include "kernels/flat/host_flat.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/host_queue.hpp"
#include "kernels/processor/processor.hpp"

namespace flotilla {

namespace {

/// "AVX-512", "AVX-512, bfloat16 by AMX".
std::string instructions(Precision precision) {
  const NativePrecisions& native = native_precisions();
  return is_half(precision) ? cat(native.float32, ", ", name(precision), " by ", native.bfloat16)
                            : native.float32;
}

const char* winograd_text(bool wanted) {
  if (!wanted) return "";
  return has_winograd() ? ", Winograd" : ", no Winograd in this library";
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const DeviceSpec& spec)
      : info_{.description = cat("oneDNN ", onednn_version(), ", ", spec.threads,
                                 spec.threads == 1 ? " thread, " : " threads, ", instructions(spec.precision),
                                 winograd_text(spec.winograd && !is_half(spec.precision))),
              .threads = spec.threads,
              .precision = spec.precision,
              .shares_host_memory = true,
              .stages_bytes = is_half(spec.precision),
              .reads_halves = is_half(spec.precision)},
        flat_(spec.threads),
        tensors_(spec.threads, spec.precision, memory_, flat_),
        images_(spec.threads, spec.precision, memory_),
        layers_(
            make_cpu_layers({.threads = spec.threads, .precision = spec.precision, .winograd = spec.winograd},
                            memory_, images_)) {}

  const DeviceInfo& info() const override { return info_; }
  DeviceMemory& memory() override { return memory_; }
  DeviceQueue& queue() override { return queue_; }
  Tensors& tensors() override { return tensors_; }
  ImageOperations& images() override { return images_; }
  Layers& layers() override { return *layers_; }
  FlatMath& flat() override { return flat_; }
  FlatUpdates& updates() override { return flat_; }

 private:
  DeviceInfo info_;
  HostMemory memory_;
  HostQueue queue_{memory_};
  HostFlat flat_;
  CpuTensors tensors_;
  CpuImages images_;
  std::unique_ptr<Layers> layers_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const DeviceSpec& spec) {
  require_native(spec.precision);
  flush_denormals();  // before OpenMP starts its threads, which inherit it
  return std::make_unique<CpuDevice>(spec);
}

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return cat(version->major, ".", version->minor, ".", version->patch);
}

}  // namespace flotilla
