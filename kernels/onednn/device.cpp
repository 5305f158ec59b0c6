// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/device.hpp"

#include <oneapi/dnnl/dnnl.h>

#include "kernels/error.hpp"
#include "kernels/flat/host_flat.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/host_queue.hpp"
#include "kernels/host_tensors.hpp"
#include "kernels/onednn/conv2d.hpp"
#include "kernels/onednn/images.hpp"
#include "kernels/onednn/layers.hpp"
#include "kernels/processor/processor.hpp"

namespace flotilla {

namespace {

/// The instruction set that oneDNN generates code for on this processor.
const char* instruction_set() {
  const auto has = [isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa())](dnnl_cpu_isa_t bits) {
    return (isa & static_cast<unsigned>(bits)) == static_cast<unsigned>(bits);
  };
  if (has(dnnl_cpu_isa_avx512_core)) return "AVX-512";
  if (has(dnnl_cpu_isa_avx2)) return "AVX2";
  return "less than AVX2";
}

const char* winograd_text(bool wanted) {
  if (!wanted) return "";
  return has_winograd() ? ", Winograd" : ", no Winograd in this library";
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const DeviceSpec& spec)
      : info_{.description = cat("oneDNN ", onednn_version(), ", ", spec.threads,
                                 spec.threads == 1 ? " thread, " : " threads, ", instruction_set(),
                                 winograd_text(spec.winograd)),
              .threads = spec.threads,
              .shares_host_memory = true},
        flat_(spec.threads),
        images_(spec.threads, memory_),
        layers_(spec.threads, spec.winograd, memory_, images_) {}

  const DeviceInfo& info() const override { return info_; }
  DeviceMemory& memory() override { return memory_; }
  DeviceQueue& queue() override { return queue_; }
  Tensors& tensors() override { return tensors_; }
  ImageOperations& images() override { return images_; }
  Layers& layers() override { return layers_; }
  FlatMath& flat() override { return flat_; }
  FlatUpdates& updates() override { return flat_; }

 private:
  DeviceInfo info_;
  HostMemory memory_;
  HostQueue queue_{memory_};
  HostFlat flat_;
  HostTensors tensors_{memory_, flat_};
  CpuImages images_;
  CpuLayers layers_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const DeviceSpec& spec) {
  flush_denormals();  // before OpenMP starts its threads, which inherit it
  return std::make_unique<CpuDevice>(spec);
}

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  return cat(version->major, ".", version->minor, ".", version->patch);
}

}  // namespace flotilla
