// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/layer.hpp"

// Layers for models that are written in C++. Their sources also describe them for lists of layers
// (models/layer_kind.hpp).

namespace flotilla {

/// An activation by itself, of images or rows.
class ActivationLayer : public Layer {
 public:
  ActivationLayer(const Building& network, std::string name, const ElementwiseSpec& spec);
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;

 private:
  std::unique_ptr<Elementwise> plan_;
  Tensor y_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
};

/// Batch normalisation of one tensor with its parameters and statistics: "<name>.weight", "<name>.bias",
/// "<name>.running_mean", "<name>.running_var". Given a WorkerExchange, mean and variance are those of all
/// workers' batches, which must be of one size. Where Arenas::fixed_statistics names its statistics, training
/// normalises with the running ones, which it leaves alone.
class Norm {
 public:
  /// @param exchange null: statistics of this worker's batch alone
  Norm(const Building& network, const std::string& name, const BatchNormSpec& spec, WorkerExchange* exchange);
  void bind(const Arenas& arenas);

  /// y may be x.
  void forward(const Tensor& x, const Tensor* residual, Tensor& y, Pass pass);
  /// Whether forward() in this pass is BatchNorm::forward.
  bool finds_statistics(Pass pass) const { return pass == Pass::training && !fixed_ && exchange_ == nullptr; }
  bool normalises_residual() const { return plan_->normalises_residual(); }
  /// BatchNorm::forward_both, where finds_statistics() says so for both norms.
  void forward_both(const Tensor& x, const Norm& of_residual, const Tensor& residual, Tensor& y) {
    plan_->forward_both(input(x), of_residual.input(residual), y);
  }
  /// Like BatchNorm::backward, with the statistics of the last training pass.
  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor* more_dy, Tensor& dx,
                Tensor* dresidual);

 private:
  /// The slices of two values per channel.
  struct Slices {
    Slice first;
    Slice second;
    template <class T>
    ChannelPair<T> in(DeviceSpan<T> arena) const {
      return {part_of(arena, first), part_of(arena, second)};
    }
  };

  std::int64_t workers() const { return exchange_ == nullptr ? 1 : exchange_->workers(); }
  NormInput input(const Tensor& x) const { return {x, weights_, batch_, {step_, statistics_momentum}}; }
  /// The statistics of the last training pass.
  GivenStatistics used() const { return fixed_ ? running_ : GivenStatistics(batch_); }
  void share(const ChannelPair<float>& values, DeviceSpan<const float> shifts);
  void backward_in_halves(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor* more_dy,
                          Tensor& dx, Tensor* dresidual);

  Device& device_;
  std::unique_ptr<BatchNorm> plan_;
  WorkerExchange* exchange_;
  std::int64_t local_count_;  ///< Values per channel of this worker's batch
  bool accumulate_;
  Slices parameters_;  ///< Scale, shift
  Slices statistics_;  ///< Mean, variance
  ScaleShift weights_;
  ScaleShiftGradients gradients_;
  GivenStatistics running_;
  Statistics step_;
  bool fixed_ = false;
  Storage memory_;  ///< Means, variances, two sums; with an exchange as much again
  Statistics batch_;
  ScaleShiftGradients sums_;
};

/// Batch normalisation of images (N,C,H,W) or rows (N,C). Tensors as Norm's.
class BatchNormLayer : public Layer {
 public:
  struct Spec {
    Shape input;
    AfterNorm after = AfterNorm::nothing;
    bool accumulate = false;
    WorkerExchange* exchange = nullptr;  ///< As Norm has it
  };
  BatchNormLayer(const Building& network, std::string name, const Spec& spec);
  /// Sets the residual that the next forward pass adds, with AfterNorm::add_relu: a tensor that stays until
  /// the pass is over.
  void add(const Tensor& residual) { residual_ = &residual; }
  /// Where the device can do it in one pass, training passes leave the normalisation to `last`, whose
  /// residual is the output of this layer, and do not write that. No other layer may read it.
  void leave_to(BatchNormLayer& last) {
    if (after_ == AfterNorm::nothing && last.norm_.normalises_residual()) last_ = &last;
  }

  void bind(const Arenas& arenas) override { norm_.bind(arenas); }
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  /// With AfterNorm::add_relu the result is two gradients, first that of x and then that of the residual.
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  bool adds_gradients() const override { return after_ == AfterNorm::add_relu; }

 private:
  bool leaves(const Tensor& x, Pass pass);
  void differentiate(const Tensor& x, Tensor& dy);

  ActivationMemory& memory_;
  AfterNorm after_;
  Norm norm_;
  const Tensor* residual_ = nullptr;
  BatchNormLayer* last_ = nullptr;       ///< Argument of leave_to(); null: none
  const Norm* residual_norm_ = nullptr;  ///< Norm that this layer performs in this pass; null: none
  const Tensor* residual_x_ = nullptr;   ///< Its input
  Tensor y_;
  ActivationMemory::Gradient dx_;
};

/// A convolution: tensors "<name>.weight" (O,I/groups,K,K) and, with a bias, "<name>.bias" (O), zero at
/// first.
class ConvLayer : public Layer {
 public:
  ConvLayer(const Building& network, std::string name, const Conv2dSpec& spec,
            const Initializer& initializer);
  void bind(const Arenas& arenas) override;
  std::shared_ptr<const Layout> batch_layout() const override { return plan_->batch_layout(); }
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;

 private:
  ActivationMemory& memory_;
  std::unique_ptr<Conv2d> plan_;
  bool bias_;
  bool input_gradient_;
  Slice weight_slice_;
  Slice bias_slice_;
  Weights weights_;
  Gradients gradients_;
  Tensor y_;
  ActivationMemory::Gradient dx_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
};

/// Dropout (kernels/layers/dropout.hpp); the identity in inference. The mask belongs to places in the
/// storage: that of an image depends on how the device arranges images.
class DropoutLayer : public Layer {
 public:
  DropoutLayer(const Building& network, std::string name, const DropoutSpec& spec);
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;

 private:
  void mask(const Tensor& x);

  Shape rows_;  ///< (N, values of a sample)
  std::unique_ptr<Dropout> plan_;
  std::uint64_t draw_ = 0;  ///< Number of the last training pass
  Tensor y_;
};

/// A linear layer with its activation: tensors "<name>.weight" (O,I) and "<name>.bias" (O), zero at first.
class LinearLayer : public Layer {
 public:
  /// @param first it is the network's first layer, and needs no gradient of its input
  /// @param order where x is an image as it lies in the device's memory: the place of each of its values in
  /// plain order; empty: x is plain. Files have the weight in plain order in both cases
  LinearLayer(const Building& network, std::string name, const LinearSpec& spec,
              const Initializer& initializer, bool first, std::vector<std::int64_t> order = {});
  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;

 private:
  ActivationMemory& memory_;
  std::unique_ptr<Linear> plan_;
  Slice weight_slice_;
  Slice bias_slice_;
  Tensor y_;
  ActivationMemory::Gradient dx_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
  bool first_;
  Weights weights_;
  Gradients gradients_;
};

/// Pooling of images: over windows, (N,C,H,W) → (N,C,H',W'), or the average of a whole image, (N,C,H,W) →
/// (N,C).
class PoolLayer : public Layer {
 public:
  PoolLayer(const Building& network, std::string name, const Pool2dSpec& spec);
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  bool adds_gradients() const override { return plan_->adds_gradients(); }

 private:
  bool makes_rows() const { return output_shape().rank() == 2; }

  ActivationMemory& memory_;
  std::unique_ptr<Pool2d> plan_;
  Tensor pooled_;  ///< (N,C,H',W') or (N,C,1,1)
  Tensor rows_;    ///< (N,C) in the memory of pooled_, where it is to be rows
  ActivationMemory::Gradient dx_;
};

}  // namespace flotilla
