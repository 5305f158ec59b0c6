// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/flat_math.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

struct Weights;
struct Gradients;

/// y[n,o,:,:] = Σ_i w[o,i,:,:] ⋆ x[n,i,:,:] + b[o], i over the channels of o's group.   x (N,I,H,W), w
/// (O,I/groups,K,K), b (O), y (N,O,H',W'), H' = ⌊(H + 2·padding − K)/stride⌋ + 1.
struct Conv2dSpec {
  Shape input;
  std::int64_t out_channels = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = false;
  bool accumulate = false;     ///< backward_weights adds to the gradients (micro-steps).
  bool input_gradient = true;  ///< Without it backward_data is not made and must not be called (first layer).
};

/// A convolution. A plan holds primitives for one shape; plans of one device share scratch memory, so that
/// only one of them runs at a time. Image tensors are those of ImageOperations::tensor.
class Conv2d {
 public:
  virtual ~Conv2d() = default;
  virtual Shape output_shape() const = 0;
  /// Values that the weight takes in the arena, the device's padding (kept zero) included; the gradient has
  /// the same layout. The bias is plain.
  virtual std::int64_t weight_size() const = 0;
  /// Floating point operations of each of the three passes: flotilla::flops of the specification.
  virtual std::int64_t flops() const = 0;
  virtual void forward(const Tensor& x, Weights w, Tensor& y) = 0;
  virtual void backward_data(const Tensor& dy, Weights w, Tensor& dx) = 0;
  virtual void backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) = 0;
  /// Weight from the plain (O,I/groups,K,K) order to the arena's and back. Host memory on both sides.
  virtual void weight_from_plain(std::span<const float> plain, std::span<float> stored) const = 0;
  virtual void weight_to_plain(std::span<const float> stored, std::span<float> plain) const = 0;
};

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

/// Batch normalisation. Training: forward, backward; inference: normalise with running statistics. Both exist
/// in two halves as well, for callers that combine statistics and sums over workers in between. A plan keeps
/// no state between calls.
class BatchNorm {
 public:
  virtual ~BatchNorm() = default;
  /// statistics() and normalise() while the values are in the cache. y may be x or the residual.
  virtual void forward(const Tensor& x, const Tensor* residual, ScaleShift w, Statistics batch,
                       Tensor& y) = 0;
  /// Mean and biased variance of x over N, H, W; the same bits for any number of threads.
  virtual void statistics(const Tensor& x, Statistics batch) = 0;
  /// `residual` only, and always, with add_relu. y may be x or the residual.
  virtual void normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                         Tensor& y) = 0;
  /// With dz = the gradient of scale · x̂ + shift, writes sums: first Σ dz · x̂ (the scale's gradient), second
  /// Σ dz (the shift's), over this worker's N, H, W. dy + *more_dy (null: none; only with add_relu) is the
  /// gradient of y, y what normalise wrote. add_relu also writes dz to *dresidual (may be dy or *more_dy),
  /// else that is null.
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

/// The reduction of a pooling window; averages divide by the size of the window, or of its part inside the
/// image; global_average takes the whole image (kernel, stride and padding are then ignored).
enum class Pooling { max, average_including_padding, average_excluding_padding, global_average };

/// y[n,c,:,:] over windows of x.   x (N,C,H,W), y (N,C,H',W') as in Conv2dSpec; global_average y (N,C,1,1),
/// whose storage is that of a plain (N,C). Of equal largest values the first one gets the gradient.
struct Pool2dSpec {
  Shape input;
  Pooling kind = Pooling::max;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;  ///< At most kernel / 2.
  friend bool operator==(const Pool2dSpec&, const Pool2dSpec&) = default;
};

class Pool2d {
 public:
  virtual ~Pool2d() = default;
  virtual Shape output_shape() const = 0;
  virtual void forward(const Tensor& x, Tensor& y) = 0;
  /// Of the last forward(): max uses the positions of the largest values that it kept.
  virtual void backward(const Tensor& dy, Tensor& dx) = 0;
};

/// y = x / (1 − p) where a value is kept, else 0, p the probability of dropping (Srivastava et al. 2014). The
/// mask is a pure function of (seed, layer, step) and the position in a plain tensor: backward computes it
/// again.
struct DropoutSpec {
  Shape input;               ///< Any shape; the tensors are plain.
  float probability = 0.0F;  ///< In [0, 1).
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;  ///< Below 2^24.
  friend bool operator==(const DropoutSpec&, const DropoutSpec&) = default;
};

class Dropout {
 public:
  virtual ~Dropout() = default;
  /// @param step a number of the forward pass, unique over all workers, so that no two use one mask. Below
  /// 2^40.
  virtual void forward(std::uint64_t step, const Tensor& x, Tensor& y) = 0;     ///< y may be x.
  virtual void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) = 0;  ///< dx may be dy.
};

/// The operations of networks on images. tensor() uses the device's preferred layout for a shape; a tensor of
/// Device::tensor or Device::stage can be used where that layout is plain (it is for up to 4 channels). In
/// every layout a tensor has shape.size() values, without padding.
class ImageOperations {
 public:
  virtual ~ImageOperations() = default;
  virtual Tensor tensor(const Shape& shape) = 0;  ///< (N,C,H,W), zeroed.
  /// A tensor (N,C,H,W) over memory that the caller keeps alive: shape.size() values, aligned to 64 bytes.
  /// Their order is that of the shape's layout: a view of another shape does not see the same tensor.
  virtual Tensor view(const Shape& shape, DeviceSpan<float> memory) = 0;
  virtual void upload(std::span<const float> host, Tensor& to) = 0;      ///< From plain N, C, H, W.
  virtual void download(const Tensor& from, std::span<float> host) = 0;  ///< To plain N, C, H, W.

  virtual std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) = 0;
  virtual std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) = 0;
  virtual std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) = 0;
  virtual std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) = 0;

  /// to ← from, both of one shape and layout; any shape.
  virtual void copy(const Tensor& from, Tensor& to) = 0;
  /// y ← y + x, both of one shape and layout, any shape; rounded once. Other sums are fused into other
  /// passes.
  virtual void add(const Tensor& x, Tensor& y) = 0;
  /// y = relu(a + b), all of one shape and layout; y may be a or b.
  virtual void add_relu(const Tensor& a, const Tensor& b, Tensor& y) = 0;
  /// dx = dy where y > 0, else 0: the gradient of a and that of b. dx may be dy.
  virtual void add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) = 0;
};

/// running ← momentum · running + (1 − momentum) · batch, where the variance is first made unbiased by count
/// / (count − 1), as in torch (whose momentum is 1 − this one). `count` values per channel, at least 2.
void update_running_statistics(FlatMath& flat, GivenStatistics batch, std::int64_t count, float momentum,
                               Statistics running);

/// ⌊(extent + 2·padding − kernel) / stride⌋ + 1.
std::int64_t windows(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding);
Shape output_shape(const Conv2dSpec& spec);
Shape output_shape(const Pool2dSpec& spec);
/// 2 · N·O·H'·W' · I/groups·K²: a multiplication and an addition each, with padding included.
std::int64_t flops(const Conv2dSpec& spec);

}  // namespace flotilla
