// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/device.hpp"

#include <oneapi/dnnl/dnnl.h>

#include <variant>

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/casts.hpp"
#include "kernels/cpu/images.hpp"
#include "kernels/cpu/layers.hpp"
#include "kernels/cpu/native_precisions.hpp"
#include "kernels/error.hpp"
#include "kernels/flat/host_flat.hpp"
#include "kernels/host_device.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/precision.hpp"
#include "kernels/processor/processor.hpp"

namespace flotilla {

namespace {

/// Tensors of floats, whose batches are the host's, or of bfloat16 values, into which batches of floats are
/// rounded and images of bytes are scaled.
class CpuTensors : public HostTensors {
 public:
  /// `memory` and `flat` must outlive it.
  CpuTensors(int threads, Precision precision, const DeviceMemory& memory, FlatMath& flat)
      : HostTensors(memory, flat), threads_(threads), precision_(precision) {}
  std::size_t floats_of(const Shape& shape) const override;
  void download(const Tensor& from, std::span<float> host) override;
  bool all_finite(const Tensor& x) override;
  void round(DeviceSpan<const float> from, HalfSpan to) override;
  void stage(const HostBatch& batch, Tensor& to) override;

 private:
  int threads_;
  Precision precision_;
};

std::size_t CpuTensors::floats_of(const Shape& shape) const {
  const std::size_t values = HostTensors::floats_of(shape);
  return is_half(precision_) ? (values + 1) / 2 : values;
}

void CpuTensors::download(const Tensor& from, std::span<float> host) {
  if (!is_half(precision_)) return HostTensors::download(from, host);
  const auto values = values_as<Bfloat16>(from);
  require(values.size() == host.size(), "download of ", values.size(), " into ", host.size(), " values");
  widen(threads_, from.shape().size(), values.address(), host.data());
}

bool CpuTensors::all_finite(const Tensor& x) {
  if (!is_half(precision_)) return HostTensors::all_finite(x);
  return flotilla::all_finite(x.shape().size(), values_as<Bfloat16>(x).address());
}

void CpuTensors::stage(const HostBatch& batch, Tensor& to) {
  if (!is_half(precision_)) return HostTensors::stage(batch, to);
  if (to.span().size() != floats_of(to.shape())) to = zeros(to.shape());
  if (const auto* const images = std::get_if<ByteImages>(&batch)) {
    check_bytes(*images, to);
    return scale_bytes(threads_, *images, values_as<Bfloat16>(to).address());
  }
  const std::span<float> values = batch_values(batch, to.shape());
  round_to_bfloat16(threads_, to.shape().size(), values.data(), values_as<Bfloat16>(to).address());
}

void CpuTensors::round(DeviceSpan<const float> from, HalfSpan to) {
  require(from.size() == to.size(), from.size(), " values rounded to ", to.size());
  round_to_bfloat16(threads_, static_cast<std::int64_t>(from.size()), from.address(),
                    reinterpret_cast<Bfloat16*>(to.address()));
}

/// "AVX-512", "AVX-512, bfloat16 by AMX".
std::string instructions(Precision precision) {
  const NativePrecisions& native = native_precisions();
  return is_half(precision) ? cat(native.float32, ", ", name(precision), " by ", native.bfloat16)
                            : native.float32;
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(const DeviceSpec& spec)
      : info_{.description =
                  cat("oneDNN ", onednn_version(), ", ", spec.threads,
                      spec.threads == 1 ? " thread, " : " threads, ", instructions(spec.precision)),
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
                            memory_, images_, info_.description)) {}

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
