// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/device.hpp"

#include <array>
#include <memory>
#include <utility>

#include "kernels/device_queue.hpp"
#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/gpu/conv2d.hpp"
#include "kernels/gpu/linear.hpp"
#include "kernels/gpu/loops/loop_tensors.hpp"
#include "kernels/gpu/memory.hpp"
#include "kernels/gpu/scope.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/tensors.hpp"

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

/// CopyLane on a stream of its own.
class CudaCopyLane : public CopyLane {
 public:
  explicit CudaCopyLane(CudaMemory memory);
  Mark mark() override;
  void download(Mark after, DeviceSpan<const float> from, std::span<float> host) override;
  void upload(std::span<const float> host, DeviceSpan<float> to) override;

 private:
  void copy(void* to, const void* from, std::size_t floats, cudaMemcpyKind kind);

  CudaMemory memory_;
  Stream lane_;
  std::array<Event, 64> marks_;
  Mark next_ = 0;
};

CudaCopyLane::CudaCopyLane(CudaMemory memory) : memory_(std::move(memory)), lane_(new_stream()) {
  for (Event& mark : marks_) mark = new_event();
}

CopyLane::Mark CudaCopyLane::mark() {
  check(cudaEventRecord(marks_[next_ % marks_.size()].get(), memory_.stream()), "cudaEventRecord");
  return next_++;
}

void CudaCopyLane::copy(void* to, const void* from, std::size_t floats, cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, floats * sizeof(float), kind, lane_.get()), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(lane_.get()), "cudaStreamSynchronize");
}

void CudaCopyLane::download(Mark after, DeviceSpan<const float> from, std::span<float> host) {
  require(from.size() == host.size(), "download of ", from.size(), " into ", host.size(), " values");
  check(cudaSetDevice(memory_.ordinal()), "cudaSetDevice");  // of this thread, which others may share
  check(cudaStreamWaitEvent(lane_.get(), marks_[after % marks_.size()].get(), 0), "cudaStreamWaitEvent");
  copy(host.data(), from.address(), host.size(), cudaMemcpyDeviceToHost);
}

void CudaCopyLane::upload(std::span<const float> host, DeviceSpan<float> to) {
  require(host.size() == to.size(), "upload of ", host.size(), " into ", to.size(), " values");
  check(cudaSetDevice(memory_.ordinal()), "cudaSetDevice");
  copy(to.address(), host.data(), host.size(), cudaMemcpyHostToDevice);
}

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

/// Plain tensors of a GPU. Batches of images become NHWC.
class CudaTensors : public Tensors {
 public:
  /// `images` makes the tensors of images. It and `memory` are of the scope's device, and must outlive this.
  CudaTensors(const DeviceMemory& memory, ImageOperations& images, std::shared_ptr<CudaScope> scope);
  Tensor zeros(const Shape& shape) override;
  std::size_t floats_of(const Shape& shape) const override;
  void download(const Tensor& from, std::span<float> host) override;
  void round(DeviceSpan<const float> from, HalfSpan to) override;
  bool all_finite(const Tensor& x) override;
  void stage(const HostBatch& batch, Tensor& to) override;
  void finish_staging() override { scope_->uploads().finish(); }

 private:
  void stage_values(std::span<float> host, Tensor& to);
  void stage_bytes(const ByteImages& host, Tensor& to);
  DeviceSpan<const float> floats(const Tensor& x);
  void make_room(Tensor& to);

  const DeviceMemory& memory_;
  ImageOperations& images_;
  std::shared_ptr<CudaScope> scope_;
  Storage floats_;  // of the last half tensor that was asked for as floats
  Storage pixels_;  // of the last images that were to lie in rows, (N,H,W,C)
};

CudaTensors::CudaTensors(const DeviceMemory& memory, ImageOperations& images,
                         std::shared_ptr<CudaScope> scope)
    : memory_(memory), images_(images), scope_(std::move(scope)) {}

Tensor CudaTensors::zeros(const Shape& shape) {
  return {shape, memory_.allocate(floats_of(shape))};
}

std::size_t CudaTensors::floats_of(const Shape& shape) const {
  return flotilla::floats_of(shape.size(), scope_->precision());
}

DeviceSpan<const float> CudaTensors::floats(const Tensor& x) {
  if (!is_half(scope_->precision())) return float_values(x);
  const auto size = static_cast<std::size_t>(x.shape().size());
  if (floats_.size() < size) floats_ = memory_.allocate(size);
  const DeviceSpan<float> to = floats_.span().subspan(0, size);
  scope_->passes().cast(values_of(x, scope_->precision()), values_of(to), {});
  return to;
}

void CudaTensors::download(const Tensor& from, std::span<float> host) {
  memory_.download(floats(from), host);
}

/// For a batch, images in NHWC. A tensor that this has made before is taken again.
void CudaTensors::make_room(Tensor& to) {
  const Shape shape = to.shape();
  if (const auto* const staged = dynamic_cast<const StagedLayout*>(to.layout())) {
    const ImageForm form = staged->form();
    const std::size_t floats = flotilla::floats_of(form.size(shape), scope_->precision());
    if (to.span().size() != floats)
      to = {shape, memory_.allocate(floats), std::make_shared<StagedLayout>(form)};
    return;
  }
  const bool image = shape.rank() == 4;
  if (to.span().size() != floats_of(shape) || (to.layout() != nullptr) != image)
    to = image ? images_.tensor(shape) : zeros(shape);
}

void CudaTensors::round(DeviceSpan<const float> from, HalfSpan to) {
  require(is_half(scope_->precision()), "a GPU that computes in float32 reads no halves");
  scope_->passes().cast(values_of(from),
                        {to.address(), static_cast<std::int64_t>(to.size()), scope_->precision()}, {});
}

bool CudaTensors::all_finite(const Tensor& x) {
  return scope_->loops().flat().all_finite(floats(x));
}

void CudaTensors::stage(const HostBatch& batch, Tensor& to) {
  if (const auto* const bytes = std::get_if<ByteImages>(&batch)) return stage_bytes(*bytes, to);
  stage_values(std::get<std::span<float>>(batch), to);
}

void CudaTensors::stage_values(std::span<float> host, Tensor& to) {
  const Shape shape = to.shape();
  require(host.size() == static_cast<std::size_t>(shape.size()), "a staged batch must hold ", shape.size(),
          " values, has ", host.size());
  make_room(to);
  const GivenValues batch = values_of(scope_->uploads().batch<float>(host));
  if (shape.rank() == 4) {
    scope_->passes().to_nhwc(shape, stored_form(to), batch, stored_values(to, scope_->precision()));
  } else {
    scope_->passes().cast(batch, values_of(to, scope_->precision()), {});
  }
}

void CudaTensors::stage_bytes(const ByteImages& host, Tensor& to) {
  check_bytes(host, to);
  make_room(to);
  const DeviceSpan<const std::uint8_t> bytes = scope_->uploads().batch(host.pixels);
  if (to.shape().rank() == 4) {
    scope_->passes().from_bytes(host.shape, stored_form(to), bytes, host.scaling,
                                stored_values(to, scope_->precision()));
    return;
  }
  const std::int64_t channels = host.shape[1];
  const Values values = values_of(to, scope_->precision());
  if (channels == 1) {  // Rows are NHWC then.
    scope_->passes().from_bytes(host.shape, {channels}, bytes, host.scaling, values);
    return;
  }
  if (pixels_.size() < floats_of(host.shape)) pixels_ = memory_.allocate(floats_of(host.shape));
  const Values nhwc{pixels_.span().address(), host.shape.size(), scope_->precision()};
  scope_->passes().from_bytes(host.shape, {channels}, bytes, host.scaling, nhwc);
  scope_->passes().from_nhwc(host.shape, channels, nhwc, values);
}

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
