// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/cuda_device.hpp"

#include "kernels/cudnn/cuda_copy_lane.hpp"
#include "kernels/cudnn/cuda_images.hpp"
#include "kernels/cudnn/cuda_linear.hpp"
#include "kernels/cudnn/cuda_scope.hpp"
#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/plan_checks.hpp"

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

/// Of one thread, but for pinned() and the lanes.
class CudaDevice : public Device {
 public:
  explicit CudaDevice(const DeviceSpec& spec)
      : spec_(spec), scope_(std::make_shared<CudaScope>(spec)), images_(context(), scope_) {}

  std::string_view name() const override { return "cuda"; }
  std::string description() const override {
    return cat(gpu_name(spec_.ordinal), ", ", cuda_version(), ", ", scope_->loops().description(), ", ",
               flotilla::name(spec_.precision), tf32_text(spec_), spec_.graphs ? ", graphs" : "");
  }
  bool shares_host_memory() const override { return false; }
  int threads() const override { return spec_.threads; }
  Precision precision() const override { return spec_.precision; }
  std::size_t floats_of(const Shape& shape) const override {
    return flotilla::floats_of(shape.size(), spec_.precision);
  }

  Storage allocate(std::size_t count) override { return scope_->memory().allocate(count); }
  Tensor tensor(const Shape& shape) override { return {shape, allocate(floats_of(shape))}; }
  std::int64_t allocated_bytes() const override { return scope_->memory().allocated_bytes(); }
  void upload(std::span<const float> host, DeviceSpan<float> to) override {
    require(host.size() == to.size(), "upload of ", host.size(), " into ", to.size(), " values");
    scope_->uploads().copy(host, to);
  }
  void download(DeviceSpan<const float> from, std::span<float> host) override;
  void download_values(const Tensor& from, std::span<float> host) override;
  bool all_finite(const Tensor& x) override { return flat().all_finite(floats(x)); }
  void stage(std::span<float> host, Tensor& to) override;
  bool stages_bytes() const override { return true; }
  void stage_bytes(const ByteImages& host, Tensor& to) override;
  void finish_staging() override { scope_->uploads().finish(); }
  bool runs_ahead() const override { return true; }
  Storage pinned(std::size_t count) override { return scope_->memory().pinned(count); }
  Storage pin(std::span<float> host) override { return scope_->memory().pin(host); }
  std::unique_ptr<CopyLane> copy_lane() override { return std::make_unique<CudaCopyLane>(scope_->memory()); }
  NativeStream native_stream() const override {
    return {scope_->stream(), spec_.ordinal, [scope = scope_] { scope->submit(); }};
  }

  std::unique_ptr<Linear> linear(const LinearSpec& spec) override {
    return std::make_unique<CudaLinear>(scope_, spec);
  }
  std::unique_ptr<SoftmaxLoss> softmax_loss(const SoftmaxLossSpec& spec) override {
    return make_softmax_loss(context(), spec);
  }
  std::unique_ptr<OverflowGuard> overflow_guard(const OverflowGuardSpec& spec) override {
    return make_overflow_guard(context(), spec);
  }
  ImageOperations& images() override { return images_; }
  FlatMath& flat() override { return scope_->loops().flat(); }
  void submit() override { scope_->submit(); }
  void synchronize() override { check(cudaStreamSynchronize(scope_->stream()), "cudaStreamSynchronize"); }

 private:
  LoopsContext context() { return {*this, scope_->loops(), spec_.precision}; }
  DeviceSpan<const float> floats(const Tensor& x);
  void make_room(Tensor& to);

  DeviceSpec spec_;
  std::shared_ptr<CudaScope> scope_;  // with the plans
  CudaImages images_;
  Storage floats_;  // of the last half tensor that was asked for as floats
  Storage pixels_;  // of the last images that were to lie in rows, (N,H,W,C)
};

void CudaDevice::download(DeviceSpan<const float> from, std::span<float> host) {
  require(from.size() == host.size(), "download of ", from.size(), " into ", host.size(), " values");
  check(cudaMemcpyAsync(host.data(), from.address(), host.size_bytes(), cudaMemcpyDeviceToHost,
                        scope_->stream()),
        "cudaMemcpyAsync");
  synchronize();
}

DeviceSpan<const float> CudaDevice::floats(const Tensor& x) {
  if (!is_half(spec_.precision)) return float_values(x);
  const auto size = static_cast<std::size_t>(x.shape().size());
  if (floats_.size() < size) floats_ = allocate(size);
  const DeviceSpan<float> to = floats_.span().subspan(0, size);
  scope_->loops().cast(values_of(x, spec_.precision), values_of(to), {});
  return to;
}

void CudaDevice::download_values(const Tensor& from, std::span<float> host) {
  download(floats(from), host);
}

/// For a batch, images in NHWC. A tensor that this has made before is taken again.
void CudaDevice::make_room(Tensor& to) {
  const Shape shape = to.shape();
  const bool image = shape.rank() == 4;
  if (to.span().size() != floats_of(shape) || (to.layout() != nullptr) != image)
    to = image ? images_.tensor(shape) : tensor(shape);
}

void CudaDevice::stage(std::span<float> host, Tensor& to) {
  const Shape shape = to.shape();
  require(host.size() == static_cast<std::size_t>(shape.size()), "a staged batch must hold ", shape.size(),
          " values, has ", host.size());
  make_room(to);
  const GivenValues batch = values_of(scope_->uploads().batch<float>(host));
  if (shape.rank() == 4) {
    scope_->loops().to_nhwc(shape, shape[1], batch, values_of(to, spec_.precision));
  } else {
    scope_->loops().cast(batch, values_of(to, spec_.precision), {});
  }
}

void CudaDevice::stage_bytes(const ByteImages& host, Tensor& to) {
  check_bytes(host, to);
  make_room(to);
  const DeviceSpan<const std::uint8_t> bytes = scope_->uploads().batch(host.pixels);
  const std::int64_t channels = host.shape[1];
  const Values values = values_of(to, spec_.precision);
  if (is_nhwc(to) || channels == 1) {  // of one channel, rows are NHWC too
    scope_->loops().from_bytes(host.shape, channels, bytes, host.scaling, values);
    return;
  }
  if (pixels_.size() < floats_of(host.shape)) pixels_ = allocate(floats_of(host.shape));
  const Values nhwc{pixels_.span().address(), host.shape.size(), spec_.precision};
  scope_->loops().from_bytes(host.shape, channels, bytes, host.scaling, nhwc);
  scope_->loops().from_nhwc(host.shape, channels, nhwc, values);
}

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
