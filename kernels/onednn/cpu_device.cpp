// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/cpu_device.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/flat/host_flat.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/onednn/cpu_images.hpp"
#include "kernels/onednn/cpu_linear.hpp"
#include "kernels/onednn/cpu_softmax_loss.hpp"
#include "kernels/plan_checks.hpp"
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

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const DeviceSpec& spec)
      : threads_(spec.threads),
        winograd_(spec.winograd),
        flat_(threads_),
        images_(threads_, winograd_, memory_) {}

  std::string_view name() const override { return "cpu"; }
  std::string description() const override {
    return cat("oneDNN ", onednn_version(), ", ", threads_, threads_ == 1 ? " thread, " : " threads, ",
               instruction_set(), winograd_ ? ", Winograd where it has it" : "");
  }
  bool shares_host_memory() const override { return true; }
  int threads() const override { return threads_; }

  Storage allocate(std::size_t count) override { return memory_.allocate(count); }
  Tensor tensor(const Shape& shape) override {
    return {shape, allocate(static_cast<std::size_t>(shape.size()))};
  }
  std::int64_t allocated_bytes() const override { return memory_.allocated_bytes(); }
  void upload(std::span<const float> host, DeviceSpan<float> to) override {
    require(host.size() == to.size(), "upload of ", host.size(), " into ", to.size(), " values");
    std::ranges::copy(host, to.address());
  }
  void download(DeviceSpan<const float> from, std::span<float> host) override {
    require(from.size() == host.size(), "download of ", from.size(), " into ", host.size(), " values");
    std::copy_n(from.address(), from.size(), host.begin());
  }
  void stage(std::span<float> host, Tensor& to) override { stage_in_place(host, to); }

  std::unique_ptr<Linear> linear(const LinearSpec& spec) override {
    return std::make_unique<CpuLinear>(threads_, spec);
  }
  std::unique_ptr<SoftmaxLoss> softmax_loss(const SoftmaxLossSpec& spec) override {
    return std::make_unique<CpuSoftmaxLoss>(threads_, spec, memory_);
  }
  ImageOperations& images() override { return images_; }
  FlatMath& flat() override { return flat_; }
  void synchronize() override {}

 private:
  int threads_;
  bool winograd_;
  HostMemory memory_;
  HostFlat flat_;
  CpuImages images_;
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
