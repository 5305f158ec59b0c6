// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kernels/device_scalar.hpp"
#include "kernels/flat_math.hpp"
#include "kernels/host_batch.hpp"
#include "kernels/image_operations.hpp"
#include "kernels/overflow_guard.hpp"
#include "kernels/precision.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// The function after a linear layer, applied in the same pass. Its derivative is a function of its value:
/// identity 1, relu y > 0, tanh 1 − y², sigmoid y (1 − y).
enum class Activation { identity, relu, tanh, sigmoid };

/// A layer's parameters and their gradients, as ranges of the arenas in the layout that the plan asked for.
struct Weights {
  DeviceSpan<const float> weight;
  DeviceSpan<const float> bias;  ///< Empty without bias.
};
struct Gradients {
  DeviceSpan<float> weight;
  DeviceSpan<float> bias;
};

/// y[n,o] = f(Σ_i w[o,i] x[n,i] + b[o]).   x (N,I), w (O,I), b (O), y (N,O).
struct LinearSpec {
  std::int64_t batch = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  Activation activation = Activation::identity;
  bool accumulate = false;  ///< backward adds to the gradients instead of overwriting them (micro-steps).
};

/// A linear layer with its activation. A plan holds primitives and workspace for one shape; not for two
/// threads at once.
class Linear {
 public:
  virtual ~Linear() = default;
  /// Values that the weight takes in the arena, the device's padding included (padding is kept zero). The
  /// bias is plain.
  virtual std::int64_t weight_size() const = 0;
  /// Floating point operations of the product forward, and of each of the two backward: 2 · N·O·I.
  virtual std::int64_t flops() const = 0;
  virtual void forward(const Tensor& x, Weights w, Tensor& y) = 0;
  /// dy is the gradient of y, and is overwritten with that of the sum before the activation (scratch
  /// afterwards). `y` is the result of forward. Writes (or adds, see accumulate) the gradients, and dx unless
  /// it is null.
  virtual void backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw,
                        Tensor* dx) = 0;
  /// Weight from the plain (O,I) order to the arena's and back. Host memory on both sides, out(I)·in(O)
  /// values plain.
  virtual void weight_from_plain(std::span<const float> plain, std::span<float> stored) const = 0;
  virtual void weight_to_plain(std::span<const float> stored, std::span<float> plain) const = 0;
};

/// The labels of the rows of a batch. Host memory; must not change until Device::finish_staging().
struct Targets {
  std::span<const std::int32_t> labels;  ///< One of 0 … classes − 1 for every row.
  std::int64_t valid = 0;  ///< Rows from here on are padding: no loss, no gradient, not counted.
  std::span<const std::int32_t> other_labels =
      {};                    ///< Mixup: the labels of the images mixed in. Empty: none.
  float other_share = 0.0F;  ///< Mixup: their share of the targets, in [0, 1].
};

/// Softmax and cross entropy with label smoothing s and mixup with a share q of another image (Zhang et al.
/// 2018): target[c] = (1 − s) ((1 − q) [c = label] + q [c = other label]) + s / classes.
struct SoftmaxLossSpec {
  std::int64_t batch = 0;
  std::int64_t classes = 0;
  float label_smoothing = 0.0F;
  friend bool operator==(const SoftmaxLossSpec&, const SoftmaxLossSpec&) = default;
};

/// Indices of the sums of SoftmaxLoss, floats in device memory.
enum LossSum : std::size_t { sum_loss = 0, sum_top1 = 1, sum_top5 = 2, sum_samples = 3, loss_sums = 4 };

class SoftmaxLoss {
 public:
  virtual ~SoftmaxLoss() = default;
  /// Adds to sums[loss_sums]: the cross entropies, the rows whose label (not the other one) has the highest
  /// logit, is among the five highest (ties go to the lower class), and the valid rows. logits (N,C).
  virtual void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) = 0;
  /// dlogits = scale · (softmax(logits) − target), zero in padding rows. Uses intermediate values of forward;
  /// dlogits may be logits.
  virtual void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> scale,
                        Tensor& dlogits) = 0;
};

/// Copies between a device and the host beside computing, for one other thread (a communication lane). A copy
/// returns when it is complete.
class CopyLane {
 public:
  using Mark = std::size_t;

  virtual ~CopyLane() = default;
  /// Called by the computing thread: marks all work queued so far. At most 64 marks may wait for their
  /// download.
  virtual Mark mark() = 0;
  /// Called by the other thread: `host` ← `from` as it is once the marked work is complete. Marks must be
  /// given in their order.
  virtual void download(Mark after, DeviceSpan<const float> from, std::span<float> host) = 0;
  /// Called by the other thread. Work that the computing thread queues after this has returned is ordered
  /// after the copy.
  virtual void upload(std::span<const float> host, DeviceSpan<float> to) = 0;
};

/// The stream that a device's work is queued on, for libraries that use streams beside it (NCCL). `handle` is
/// a cudaStream_t; ordinal −1: the device has no queue. `submit` as Device::submit; may be empty.
struct NativeStream {
  void* handle = nullptr;
  int ordinal = -1;
  std::function<void()> submit = {};
};

/// A device to compute on. A tensor has a logical shape; the layout of its storage is private to the device.
///
/// Memory of a device is the host's only where shares_host_memory() says so. Elsewhere an address of a
/// DeviceSpan must not be dereferenced: the reference device returns invalid addresses, so that tests without
/// a GPU find code that does.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;    ///< "cpu"
  virtual std::string description() const = 0;  ///< "oneDNN 2.6.3, 2 threads, AVX-512": printed by every run
  virtual bool shares_host_memory()
      const = 0;                    ///< Device spans are host addresses: arenas may lie in MPI windows.
  virtual int threads() const = 0;  ///< Host threads that kernels use.
  /// The precision of activations, their gradients and the weights of products; arenas are float32.
  virtual Precision precision() const { return Precision::float32; }
  /// Floats of storage that an activation of that shape takes: half as many, rounded up, where two values
  /// share one.
  virtual std::size_t floats_of(const Shape& shape) const { return static_cast<std::size_t>(shape.size()); }

  virtual Storage allocate(std::size_t count) = 0;   ///< `count` floats, zeroed, 64-byte aligned.
  virtual Tensor tensor(const Shape& shape) = 0;     ///< Plain layout, zeroed.
  virtual std::int64_t allocated_bytes() const = 0;  ///< Current allocations, plans' workspaces included.
  virtual void upload(std::span<const float> host, DeviceSpan<float> to) = 0;  ///< Plain copy, sizes equal.
  virtual void download(DeviceSpan<const float> from, std::span<float> host) = 0;
  /// The values of a tensor that lies plain, as floats whatever the precision. host.size() = shape.size().
  virtual void download_values(const Tensor& from, std::span<float> host);
  /// Whether all values of an activation are finite, whatever the precision.
  virtual bool all_finite(const Tensor& x);
  /// Makes a host batch available as `to` (plain, shape kept): a CPU points `to` at it, a device with memory
  /// of its own copies it, into memory that it makes if `to` has none. The host memory must not change until
  /// finish_staging() after its last use.
  virtual void stage(std::span<float> host, Tensor& to) = 0;
  /// Whether images are staged faster as bytes that the device scales; false on a CPU, which copies nothing.
  virtual bool stages_bytes() const { return false; }
  /// Makes a batch of images available as stage() does, scaled by the device. `to` is (N,C,H,W) or (N,C·H·W).
  /// @throws InternalError where stages_bytes() is false
  virtual void stage_bytes(const ByteImages& host, Tensor& to);
  /// Returns when no work queued so far will read a batch or Targets any more.
  virtual void finish_staging() { synchronize(); }
  /// `count` floats of host memory, zeroed, aligned to 64 bytes, with which copies to and from this device
  /// are fast (page-locked for a GPU).
  virtual Storage pinned(std::size_t count);
  /// Makes copies to and from existing host memory (a window that ranks share) as fast as with pinned(), for
  /// as long as the result lives. Empty: nothing had to be done.
  virtual Storage pin(std::span<float> /*host*/) { return {}; }
  virtual std::unique_ptr<CopyLane> copy_lane();
  virtual NativeStream native_stream() const { return {}; }

  virtual std::unique_ptr<Linear> linear(const LinearSpec& spec) = 0;
  virtual std::unique_ptr<SoftmaxLoss> softmax_loss(const SoftmaxLossSpec& spec) = 0;
  /// For devices that run ahead of the host. Null: the host checks with flat() whether a step is finite.
  virtual std::unique_ptr<OverflowGuard> overflow_guard(const OverflowGuardSpec& /*spec*/) { return {}; }
  /// Convolution, batch norm, pooling, dropout. @throws InternalError where a device has none.
  virtual ImageOperations& images();
  virtual FlatMath& flat() = 0;  ///< Operations on flat arrays: optimizers, norms, axpy.
  /// Whether calls return before their work is complete: reading a result then waits for all queued work.
  virtual bool runs_ahead() const { return false; }
  /// To be called at the end of a step: a device that collects work (CUDA graphs) submits it now.
  virtual void submit() {}
  virtual void synchronize() = 0;  ///< Returns when all work queued so far is complete.
};

/// Which operations a GPU may compute with operands rounded to TF32 (10 bits of mantissa) in float32.
enum class Tf32 : std::uint8_t { none, convolutions, all };

/// @param threads 1 or more.
struct DeviceSpec {
  std::string kind = "cpu";  ///< "cpu", "reference" or "cuda".
  int threads = 1;
  Precision precision = Precision::float32;
  /// Convolutions of 3x3 with stride 1 may use Winograd's algorithm (Lavin & Gray 2016) where the library has
  /// it (oneDNN 2 with AVX-512; description() says whether): up to 2.5 times as fast, with errors of 1e-6 of
  /// the results' root mean square instead of 2e-7.
  bool winograd = false;
  // cuda
  int ordinal = 0;                          ///< Index among the GPUs that this process sees
  Tf32 tf32 = Tf32::convolutions;           ///< "all": matrix products too
  bool reproducible = false;                ///< Only algorithms that give the same bits every time.
  std::size_t workspace_bytes = 1U << 30U;  ///< Most memory of a convolution's algorithm.
  bool graphs = false;                      ///< Work that repeats itself is launched as CUDA graphs.
};

/// "cpu" makes the calling thread, and those that it starts later, take denormal values as zero.
/// @throws UserError if this build has no such device, naming the option that would build it.
std::unique_ptr<Device> make_device(const DeviceSpec& spec);

}  // namespace flotilla
