// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/flat_math.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// The operation after the normalisation, in the same pass; with add_relu y = relu(bn(x) + residual).
enum class AfterNorm { nothing, relu, add_relu };

/// x̂ = (x − mean) / √(variance + ε) per channel over N, H, W;  y = scale · x̂ + shift, then `after` (Ioffe &
/// Szegedy 2015).   x, y (N,C,H,W).
struct BatchNormSpec {
  Shape input;
  float epsilon = 1e-5F;
  AfterNorm after = AfterNorm::nothing;
  bool accumulate = false;  ///< backward adds to the gradients of scale and shift.
  friend bool operator==(const BatchNormSpec&, const BatchNormSpec&) = default;
};

/// Two values per channel: scale and shift, their gradients, or mean and biased variance. Plain.
template <class T>
struct ChannelPair {
  DeviceSpan<T> first;
  DeviceSpan<T> second;
  /// A read-only pair.
  operator ChannelPair<const T>() const requires(!std::is_const_v<T>) { return {first, second}; }
  friend bool operator==(const ChannelPair&, const ChannelPair&) = default;
};
using ScaleShift = ChannelPair<const float>;  ///< first scale, second shift
using Statistics = ChannelPair<float>;        ///< first mean, second variance
using GivenStatistics = ChannelPair<const float>;
using ScaleShiftGradients = ChannelPair<float>;  ///< first of the scale, second of the shift

/// Running statistics that a training pass updates (update_running_statistics), and their momentum.
struct RunningStatistics {
  Statistics values;  ///< Empty: none
  float momentum = 0.0F;
  friend bool operator==(const RunningStatistics&, const RunningStatistics&) = default;
};

/// What forward() takes of a norm, its y left out.
struct NormInput {
  const Tensor& x;
  ScaleShift w;
  Statistics batch;
  RunningStatistics running;
};

/// Batch normalisation. Training: forward, backward; inference: normalise with running statistics. Both exist
/// in two halves as well, for callers that combine statistics and sums over workers in between. With add_relu
/// a plan may keep which values of y are above zero: a backward pass is for the y that was written last.
class BatchNorm {
 public:
  virtual ~BatchNorm() = default;
  /// statistics() and normalise() while the values are in the cache; then update_running_statistics(). y may
  /// be x or the residual.
  virtual void forward(const Tensor& x, const Tensor* residual, ScaleShift w, Statistics batch,
                       const RunningStatistics& running, Tensor& y) = 0;
  /// Whether there is a forward_both().
  virtual bool normalises_residual() const { return false; }
  /// As forward() with add_relu, where the residual is the result of forward() of another norm without
  /// AfterNorm, with this shape and epsilon: the bits are the same, but the residual is not written.
  virtual void forward_both(const NormInput& norm, const NormInput& of_residual, Tensor& y);
  /// Mean and biased variance of x over N, H, W; the same bits for any number of threads.
  virtual void statistics(const Tensor& x, Statistics batch) = 0;
  /// `residual` only, and always, with add_relu. y may be x or the residual.
  virtual void normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                         Tensor& y) = 0;
  /// With dz = the gradient of scale · x̂ + shift, writes sums: first Σ dz · x̂ (the scale's gradient), second
  /// Σ dz (the shift's), over this worker's N, H, W. dy + *more_dy (null: none; only with add_relu) is the
  /// gradient of y, y what normalise wrote. With add_relu dz is also written to *dresidual (may be dy or
  /// *more_dy); without it dresidual is null.
  virtual void backward_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s,
                             const Tensor& dy, const Tensor* more_dy, Tensor* dresidual,
                             ScaleShiftGradients sums) = 0;
  /// dx = scale / √(variance + ε) · (dz − (Σ dz + x̂ Σ dz x̂) / count), sums over the `count` values per
  /// channel that the statistics were taken of. `dy` is that of backward_sums; with add_relu what was written
  /// to *dresidual. dx may be dy.
  virtual void backward_data(const Tensor& x, ScaleShift w, GivenStatistics s, GivenStatistics sums,
                             double count, const Tensor& dy, Tensor& dx) = 0;
  /// backward_sums() and backward_data() on this worker's statistics; writes (or adds, see accumulate) the
  /// gradients.
  virtual void backward(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                        const Tensor* more_dy, ScaleShiftGradients gradients, Tensor& dx,
                        Tensor* dresidual) = 0;
};

/// The constants of an update of running statistics: value ← momentum · value + rate · the batch's.
struct RunningRates {
  float momentum = 0.0F;
  float mean = 0.0F;
  float variance = 0.0F;  ///< Makes the variance unbiased too: count / (count − 1)
  friend bool operator==(const RunningRates&, const RunningRates&) = default;
};

/// The rates for `count` values per channel. @throws InternalError for fewer than 2
RunningRates running_rates(float momentum, std::int64_t count);

/// running ← momentum · running + (1 − momentum) · batch, where the variance is first made unbiased by count
/// / (count − 1), as in torch (whose momentum is 1 − this one). `count` values per channel, at least 2. Does
/// nothing where there are none.
void update_running_statistics(FlatMath& flat, GivenStatistics batch, std::int64_t count,
                               const RunningStatistics& running);

}  // namespace flotilla
