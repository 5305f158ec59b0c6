// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/device_queue.hpp"
#include "kernels/device_scalar.hpp"
#include "kernels/flat_math.hpp"
#include "kernels/flat_updates.hpp"
#include "kernels/host_batch.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/overflow_guard.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// `size` read-only values of one precision in device memory, aligned to 16 bytes.
struct GivenValues {
  const void* address = nullptr;
  std::int64_t size = 0;
  Precision precision = Precision::float32;
  friend bool operator==(const GivenValues&, const GivenValues&) = default;
};
/// `size` writable values of one precision in device memory, aligned to 16 bytes.
struct Values {
  void* address = nullptr;
  std::int64_t size = 0;
  Precision precision = Precision::float32;
  operator GivenValues() const { return {address, size, precision}; }
  friend bool operator==(const Values&, const Values&) = default;
};

/// Parameters, gradients and sums: always float32.
inline Values values_of(DeviceSpan<float> x) {
  return {x.address(), static_cast<std::int64_t>(x.size()), Precision::float32};
}
inline GivenValues values_of(DeviceSpan<const float> x) {
  return {x.address(), static_cast<std::int64_t>(x.size()), Precision::float32};
}

/// to = factor · from, or to + factor · from. Sizes equal.
struct CastSpec {
  float factor = 1.0F;
  bool add = false;
  friend bool operator==(const CastSpec&, const CastSpec&) = default;
};

/// A copy of a matrix with longer (zero-padded) or shorter rows: (rows, from) to (rows, to). Used for filters
/// whose input channels are padded.
struct RowsSpec {
  std::int64_t rows = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;
  friend bool operator==(const RowsSpec&, const RowsSpec&) = default;
};

/// The inputs of batch norm's backward pass, as in BatchNorm::backward_sums. The address of more_dy is null
/// where there is none; `positive` is read with add_relu only (with relu the sign is computed from x again).
struct NormGradients {
  GivenValues x;
  const std::uint8_t* positive = nullptr;  ///< Mask that normalise wrote
  GivenValues dy;
  GivenValues more_dy = {};
  friend bool operator==(const NormGradients&, const NormGradients&) = default;
};

/// Bytes of a batch norm's `positive`: one for each pack of values.
std::int64_t norm_mask_bytes(const BatchNormSpec& spec, Precision precision);

/// The targets of a batch on the device.
struct DeviceTargets {
  const std::int32_t* labels = nullptr;  ///< (batch)
  std::int64_t valid = 0;
  const std::int32_t* other_labels = nullptr;  ///< (batch), or null
  DeviceScalar<float> other_share = 0.0F;
  const float* values = nullptr;  ///< (batch, outputs): of an OutputLoss
  friend bool operator==(const DeviceTargets&, const DeviceTargets&) = default;
};

/// The state of an OverflowGuard on the device.
struct ScalerState {
  UpdateNumbers update;  ///< Numbers of the last step that was checked
  float backward_scale = 1.0F;
  ScaleState state;
  std::int64_t steps = 0;  ///< Taken by the optimizer
};

/// Casts and layouts: from and to may differ in precision, and must not overlap.
class CastLoops {
 public:
  virtual ~CastLoops() = default;
  /// Sizes equal.
  virtual void cast(GivenValues from, Values to, const CastSpec& spec) = 0;
  /// As cast, row by row.
  virtual void cast_rows(const RowsSpec& rows, GivenValues from, Values to, const CastSpec& spec) = 0;
  /// (N,C,H,W) in memory to (N,H,W,channels), channels ≥ C, the rest zero.
  virtual void to_nhwc(const Shape& shape, std::int64_t channels, GivenValues from, Values to) = 0;
  /// (N,H,W,channels) in memory to (N,C,H,W), of the first C channels.
  virtual void from_nhwc(const Shape& shape, std::int64_t channels, GivenValues from, Values to) = 0;
  /// Bytes (N,H,W,C), C ≤ 4, to (N,H,W,channels), channels ≥ C, the rest zero.
  virtual void from_bytes(const Shape& shape, std::int64_t channels, DeviceSpan<const std::uint8_t> from,
                          const ByteScaling& scaling, Values to) = 0;
};

/// Activations, and sums of tensors.
class ActivationLoops {
 public:
  virtual ~ActivationLoops() = default;
  /// x (rows, channels) becomes f(x + bias), bias (channels); empty: none.
  virtual void bias_activation(Activation f, std::int64_t channels, DeviceSpan<const float> bias,
                               Values x) = 0;
  /// dy (rows, channels) becomes the gradient of the sum before the activation, y its value; then db
  /// (channels, empty: none) = the sums of dy over rows, added to db with `accumulate`. identity reads no y.
  virtual void bias_activation_backward(Activation f, std::int64_t channels, GivenValues y, Values dy,
                                        DeviceSpan<float> db, bool accumulate) = 0;
  /// y = f(x), sizes equal.
  virtual void activate(Activation f, GivenValues x, Values y) = 0;
  /// dx = dy · f'(x), y = f(x); dx may be dy.
  virtual void activate_backward(Activation f, GivenValues x, GivenValues y, GivenValues dy, Values dx) = 0;
  /// y = relu(a + b); y may be a or b.
  virtual void add_relu(GivenValues a, GivenValues b, Values y) = 0;
  /// dx = dy where y > 0, else 0; dx may be dy.
  virtual void add_relu_backward(GivenValues y, GivenValues dy, Values dx) = 0;
};

/// Batch norm and layer norm: formulas and what may be in place as in BatchNorm and LayerNorm
/// (kernels/layers/).
class NormLoops {
 public:
  virtual ~NormLoops() = default;
  /// Updates the running statistics in the kernel that joins the sums: no launch of its own.
  virtual void norm_statistics(const BatchNormSpec& spec, GivenValues x, Statistics batch,
                               const RunningStatistics& running) = 0;
  /// residual: address null where there is none. With add_relu, bit v of byte i of `positive`
  /// (norm_mask_bytes) says whether value v of pack i of y is above zero; else that is null.
  virtual void normalise(const BatchNormSpec& spec, GivenValues x, GivenValues residual, ScaleShift w,
                         GivenStatistics s, Values y, std::uint8_t* positive) = 0;
  /// Writes sums, and adds them to `gradients` too unless those are empty. dresidual: null without add_relu.
  virtual void norm_backward_sums(const BatchNormSpec& spec, const NormGradients& in, ScaleShift w,
                                  GivenStatistics s, Values dresidual, ScaleShiftGradients sums,
                                  ScaleShiftGradients gradients) = 0;
  virtual void norm_backward_data(const BatchNormSpec& spec, GivenValues x, ScaleShift w, GivenStatistics s,
                                  GivenStatistics sums, double count, GivenValues dy, Values dx) = 0;
  /// As LayerNorm; `moments` (rows, 2) keeps for backward each row's mean and 1 / √(variance + ε).
  virtual void layer_norm(const LayerNormSpec& spec, GivenValues x, ScaleShift w, DeviceSpan<float> moments,
                          Values y) = 0;
  virtual void layer_norm_backward(const LayerNormSpec& spec, GivenValues x, ScaleShift w,
                                   DeviceSpan<const float> moments, GivenValues dy,
                                   ScaleShiftGradients gradients, Values dx) = 0;
};

/// Pooling and dropout.
class PoolLoops {
 public:
  virtual ~PoolLoops() = default;
  /// `chosen`: with max, one byte per value of y for the place of the largest value in its window; else null.
  virtual void pool(const Pool2dSpec& spec, GivenValues x, Values y, std::uint8_t* chosen) = 0;
  virtual void pool_backward(const Pool2dSpec& spec, const std::uint8_t* chosen, GivenValues dy,
                             Values dx) = 0;
  /// As Dropout: forward and backward alike.
  virtual void dropout(const DropoutSpec& spec, DeviceScalar<std::uint64_t> step, GivenValues from,
                       Values to) = 0;
};

/// Losses: formulas in kernels/layers/. All are added as Loss does.
class LossLoops {
 public:
  virtual ~LossLoops() = default;
  /// `normalisers` (batch, 2) keeps for backward each row's largest logit m and Σ exp(x − m).
  virtual void softmax_loss(const SoftmaxLossSpec& spec, GivenValues logits, const DeviceTargets& targets,
                            DeviceSpan<float> normalisers, DeviceSpan<float> sums) = 0;
  virtual void softmax_loss_backward(const SoftmaxLossSpec& spec, GivenValues logits,
                                     const DeviceTargets& targets, DeviceSpan<const float> normalisers,
                                     DeviceScalar<float> scale, Values dlogits) = 0;
  virtual void output_loss(const OutputLossSpec& spec, GivenValues outputs, const DeviceTargets& targets,
                           DeviceSpan<float> sums) = 0;
  virtual void output_loss_backward(const OutputLossSpec& spec, GivenValues outputs,
                                    const DeviceTargets& targets, DeviceScalar<float> scale,
                                    Values gradient) = 0;
};

/// The kernels of an OverflowGuard.
class OverflowLoops {
 public:
  virtual ~OverflowLoops() = default;
  /// flag[0] ← 1 if a value is NaN or infinite, else unchanged. The host does not wait.
  virtual void flag_not_finite(GivenValues x, DeviceSpan<float> flag) = 0;
  /// OverflowGuard::check with the result of flag_not_finite; sets the flag to 0.
  virtual void check_overflow(const OverflowGuardSpec& spec, DeviceScalar<float> learning_rate, double summed,
                              DeviceSpan<float> flag, ScalerState* state, DeviceSpan<float> report) = 0;
  /// As OverflowGuard::restore. Sizes equal.
  virtual void restore(const ScalerState* state, DeviceSpan<const float> before,
                       DeviceSpan<float> values) = 0;
};

/// The operations on a GPU that no vendor's library offers, in the order of the calls on one stream. Only
/// functions that return a number to the host (sums, norms and all_finite of flat()) wait for the device.
/// Images are (N,H,W,C) in memory, though shapes are written (N,C,H,W); their values are of any precision,
/// one precision in a call unless said otherwise. All sums are added in an order that depends on sizes only.
/// Scratch memory grows with the first call that needs more. Checks sizes: InternalError.
class DeviceLoops : public CastLoops,
                    public ActivationLoops,
                    public NormLoops,
                    public PoolLoops,
                    public LossLoops,
                    public OverflowLoops {
 public:
  virtual std::string description() const = 0;  ///< "Kokkos 4.7.1, Cuda"
  virtual FlatMath& flat() = 0;
  virtual FlatUpdates& updates() = 0;
};

/// Device memory for scratch: floats, on 64 bytes. Its release must wait for kernels that use it.
using LoopMemory = std::function<Storage(std::size_t floats)>;

class WorkQueue;

/// The loops on a CUDA stream, which must outlive them, as must the KokkosScope and the queue. Starts Kokkos
/// on its GPU. @param queue Gets the kernels; null: they start at once.
/// @throws UserError where this build has none, saying which Kokkos to build.
std::unique_ptr<DeviceLoops> make_cuda_loops(NativeStream stream, LoopMemory memory, WorkQueue* queue);

}  // namespace flotilla
