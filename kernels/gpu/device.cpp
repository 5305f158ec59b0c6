// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/device.hpp"

#include "kernels/error.hpp"
#include "kernels/gpu/conv2d.hpp"
#include "kernels/gpu/copy_lane.hpp"
#include "kernels/gpu/linear.hpp"
#include "kernels/gpu/scope.hpp"
#include "kernels/gpu/tensors.hpp"

namespace flotilla {

namespace {

std::string gpu_name(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  return properties.name;
}

std::string_view tf32_text(const DeviceSpec& spec) {
  if (is_half(spec.precision) || spec.tf32 == Tf32::none) return "";
  return spec.tf32 == Tf32::all ? ", TF32" : ", TF32 in convolutions";
}

std::string describe(const DeviceSpec& spec, const DeviceLoops& loops) {
  return cat(gpu_name(spec.ordinal), ", ", cuda_version(), ", ", loops.description(), ", ",
             name(spec.precision), tf32_text(spec), spec.graphs ? ", graphs" : "");
}

/// For one thread; only pinned() and pin() may be called from any.
class CudaDeviceMemory : public DeviceMemory {
 public:
  explicit CudaDeviceMemory(CudaScope& scope) : scope_(scope) {}
  Storage allocate(std::size_t count) const override { return scope_.memory().allocate(count); }
  std::int64_t allocated_bytes() const override { return scope_.memory().allocated_bytes(); }
  void upload(std::span<const float> host, DeviceSpan<float> to) const override {
    require(host.size() == to.size(), "upload of ", host.size(), " into ", to.size(), " values");
    scope_.uploads().copy(host, to);
  }
  void download(DeviceSpan<const float> from, std::span<float> host) const override {
    require(from.size() == host.size(), "download of ", from.size(), " into ", host.size(), " values");
    check(cudaMemcpyAsync(host.data(), from.address(), host.size_bytes(), cudaMemcpyDeviceToHost,
                          scope_.stream()),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(scope_.stream()), "cudaStreamSynchronize");
  }
  Storage pinned(std::size_t count) const override { return scope_.memory().pinned(count); }
  Storage pin(std::span<float> host) const override { return scope_.memory().pin(host); }

 private:
  CudaScope& scope_;
};

/// The GPU's stream. Used by one thread, except for the copy lanes.
class CudaQueue : public DeviceQueue {
 public:
  CudaQueue(std::shared_ptr<CudaScope> scope, int ordinal) : scope_(std::move(scope)), ordinal_(ordinal) {}
  void submit() override { scope_->submit(); }
  void synchronize() override { check(cudaStreamSynchronize(scope_->stream()), "cudaStreamSynchronize"); }
  std::unique_ptr<CopyLane> copy_lane() override { return std::make_unique<CudaCopyLane>(scope_->memory()); }
  NativeStream native_stream() const override {
    return {scope_->stream(), ordinal_, [scope = scope_] { scope->submit(); }};
  }

 private:
  std::shared_ptr<CudaScope> scope_;
  int ordinal_;
};

/// cuBLAS' products and cuDNN's convolutions.
class CudaProducts : public ProductLayers {
 public:
  explicit CudaProducts(std::shared_ptr<CudaScope> scope) : scope_(std::move(scope)), choice_(scope_) {}
  std::unique_ptr<Linear> linear(const LinearSpec& spec) override {
    return std::make_unique<CudaLinear>(scope_, spec);
  }
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) override {
    return std::make_unique<CudaConv2d>(scope_, choice_, spec);
  }

 private:
  std::shared_ptr<CudaScope> scope_;
  AlgorithmChoice choice_;
};

class CudaDevice : public Device {
 public:
  explicit CudaDevice(const DeviceSpec& spec)
      : scope_(std::make_shared<CudaScope>(spec)),
        info_{.description = describe(spec, scope_->loops()),
              .threads = spec.threads,
              .precision = spec.precision,
              .stages_bytes = true,
              .reads_halves = is_half(spec.precision),
              .runs_ahead = true},
        queue_(scope_, spec.ordinal) {}

  const DeviceInfo& info() const override { return info_; }
  DeviceMemory& memory() override { return memory_; }
  DeviceQueue& queue() override { return queue_; }
  Tensors& tensors() override { return tensors_; }
  ImageOperations& images() override { return *images_; }
  Layers& layers() override { return *layers_; }
  FlatMath& flat() override { return scope_->loops().flat(); }
  FlatUpdates& updates() override { return scope_->loops().updates(); }
  std::unique_ptr<OverflowGuard> overflow_guard(const OverflowGuardSpec& spec) override {
    return scope_->loops().overflow_guard(memory_, spec);
  }

 private:
  std::shared_ptr<CudaScope> scope_;  // with the plans
  DeviceInfo info_;
  CudaQueue queue_;
  CudaDeviceMemory memory_{*scope_};
  CudaProducts products_{scope_};
  std::unique_ptr<ImageOperations> images_ = scope_->loops().images(memory_, info_.precision, queue_);
  std::unique_ptr<Layers> layers_ = scope_->loops().layers(memory_, info_.precision, products_);
  CudaTensors tensors_{memory_, *images_, scope_};
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const DeviceSpec& spec) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    throw UserError(cat("device.kind = \"cuda\", but this process sees no GPU: ", cudaGetErrorString(status),
                        "; does nvidia-smi show one here, and does CUDA_VISIBLE_DEVICES leave it?"));
  }
  require(spec.ordinal >= 0 && spec.ordinal < count, "there is no GPU ", spec.ordinal, " among ", count);
  return std::make_unique<CudaDevice>(spec);
}

std::string cuda_version() {
  int cuda = 0;
  check(cudaRuntimeGetVersion(&cuda), "cudaRuntimeGetVersion");
  const std::size_t cudnn = cudnnGetVersion();
  return cat("CUDA ", cuda / 1000, ".", cuda % 1000 / 10, ", cuDNN ", cudnn / 10000, ".", cudnn % 10000 / 100,
             ".", cudnn % 100);
}

}  // namespace flotilla
