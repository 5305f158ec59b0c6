// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/layers.hpp"

#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/layers/dropout.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/reference/flat.hpp"
#include "kernels/reference/image_loops.hpp"
#include "kernels/reference/loops.hpp"

namespace flotilla {

namespace {

using reference::host;

std::span<const float> host(const Tensor* x) {
  return x == nullptr ? std::span<const float>{} : host(x->span());
}

class ReferenceLinear : public Linear {
 public:
  ReferenceLinear(const LinearSpec& spec, reference::Rounding rounding)
      : spec_(spec), rounding_(rounding), x_(rounding), weight_(rounding) {
    check_spec(spec);
  }

  std::int64_t weight_size() const override { return spec_.out * spec_.in; }
  std::int64_t flops() const override { return 2 * spec_.batch * weight_size(); }

  void forward(const Tensor& x, Weights w, Tensor& y) override {
    check_forward(spec_, weight_size(), x, w, y);
    reference::linear_forward<float>(spec_, x_.of(host(x.span())), weight_.of(host(w.weight)), host(w.bias),
                                     host(y.span()));
    rounding_.round(host(y.span()));
  }

  void backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw, Tensor* dx) override {
    check_backward(spec_, weight_size(), x, y, w, dy, dw, dx);
    const std::span<float> input = dx == nullptr ? std::span<float>{} : host(dx->span());
    reference::activation_backward<float>(spec_.activation, host(y.span()), host(dy.span()));
    rounding_.round(host(dy.span()));
    LinearSpec product = spec_;
    product.activation = Activation::identity;
    reference::linear_backward<float>(product, x_.of(host(x.span())), host(y.span()),
                                      weight_.of(host(w.weight)), host(dy.span()), host(dw.weight),
                                      host(dw.bias), input);
    rounding_.round(input);
  }

  void weight_from_plain(std::span<const float> plain, std::span<float> stored) const override {
    copy_plain_weight(weight_size(), plain, stored);
  }
  void weight_to_plain(std::span<const float> stored, std::span<float> plain) const override {
    copy_plain_weight(weight_size(), stored, plain);
  }

 private:
  LinearSpec spec_;
  reference::Rounding rounding_;
  reference::HalfCopy x_;
  reference::HalfCopy weight_;
};

class ReferenceSoftmaxLoss : public Loss {
 public:
  ReferenceSoftmaxLoss(const SoftmaxLossSpec& spec, reference::Rounding rounding)
      : spec_(spec), rounding_(rounding) {
    check_spec(spec);
  }

  void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) override {
    check_loss(spec_, logits, targets);
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    reference::softmax_loss_forward<float>(spec_, host(logits.span()), targets, host(sums));
  }

  void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> scale,
                Tensor& dlogits) override {
    check_loss(spec_, logits, targets);
    require(dlogits.shape() == logits.shape(), "the logits' gradient must have their shape");
    reference::softmax_loss_backward<float>(spec_, host(logits.span()), targets, double{scale.get()},
                                            host(dlogits.span()));
    rounding_.round(host(dlogits.span()));
  }

 private:
  SoftmaxLossSpec spec_;
  reference::Rounding rounding_;
};

class ReferenceOutputLoss : public Loss {
 public:
  ReferenceOutputLoss(const OutputLossSpec& spec, reference::Rounding rounding)
      : spec_(spec), rounding_(rounding) {
    check_spec(spec);
  }

  void forward(const Tensor& outputs, const Targets& targets, DeviceSpan<float> sums) override {
    check_loss(spec_, outputs, targets);
    require(sums.size() == loss_sums, "the loss adds to ", loss_sums, " sums, got ", sums.size());
    reference::output_loss_forward<float>(spec_, host(outputs.span()), targets, host(sums));
  }

  void backward(const Tensor& outputs, const Targets& targets, DeviceScalar<float> scale,
                Tensor& gradient) override {
    check_loss(spec_, outputs, targets);
    require(gradient.shape() == outputs.shape(), "the outputs' gradient must have their shape");
    reference::output_loss_backward<float>(spec_, host(outputs.span()), targets, double{scale.get()},
                                           host(gradient.span()));
    rounding_.round(host(gradient.span()));
  }

 private:
  OutputLossSpec spec_;
  reference::Rounding rounding_;
};

class ReferenceConv2d : public Conv2d {
 public:
  ReferenceConv2d(const Conv2dSpec& spec, reference::Rounding rounding, reference::Rounding gradients)
      : spec_(spec),
        rounding_(rounding),
        x_(rounding),
        weight_(rounding),
        gradient_(gradients, spec.accumulate) {
    check_spec(spec);
  }

  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  std::int64_t weight_size() const override {
    return spec_.out_channels * spec_.input[1] / spec_.groups * spec_.kernel * spec_.kernel;
  }
  std::int64_t flops() const override { return flotilla::flops(spec_); }
  void forward(const Tensor& x, Weights w, Tensor& y) override {
    check_image("x", x, spec_.input);
    check_image("y", y, output_shape());
    check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
    reference::conv2d_forward<float>(spec_, x_.of(host(x.span())), weight_.of(host(w.weight)), host(w.bias),
                                     host(y.span()));
    rounding_.round(host(y.span()));
  }
  void backward_data(const Tensor& dy, Weights w, Tensor& dx) override {
    require(spec_.input_gradient, "this convolution was made without backward_data");
    check_image("dy", dy, output_shape());
    check_image("dx", dx, spec_.input);
    check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
    reference::conv2d_backward_data<float>(spec_, host(dy.span()), weight_.of(host(w.weight)),
                                           host(dx.span()));
    rounding_.round(host(dx.span()));
  }
  void backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) override {
    check_image("x", x, spec_.input);
    check_image("dy", dy, output_shape());
    check_weights(spec_, weight_size(), dw.weight.size(), dw.bias.size());
    reference::conv2d_backward_weights<float>(spec_, x_.of(host(x.span())), host(dy.span()),
                                              gradient_.room_for(host(dw.weight)), host(dw.bias));
    gradient_.finish(host(dw.weight));
  }
  void weight_from_plain(std::span<const float> plain, std::span<float> stored) const override {
    copy_plain_weight(weight_size(), plain, stored);
  }
  void weight_to_plain(std::span<const float> stored, std::span<float> plain) const override {
    copy_plain_weight(weight_size(), stored, plain);
  }

 private:
  Conv2dSpec spec_;
  reference::Rounding rounding_;
  reference::HalfCopy x_;
  reference::HalfCopy weight_;
  reference::HalfGradient gradient_;
};

class ReferenceBatchNorm : public BatchNorm {
 public:
  ReferenceBatchNorm(const BatchNormSpec& spec, const reference::TaggedMemory& memory,
                     reference::Rounding rounding)
      : spec_(spec), rounding_(rounding) {
    check_spec(spec);
    sums_ = memory.allocate(2 * static_cast<std::size_t>(spec.input[1]));
  }

  void forward(const Tensor& x, const Tensor* residual, ScaleShift w, Statistics batch,
               const RunningStatistics& running, Tensor& y) override {
    statistics(x, batch);
    normalise(x, residual, w, batch, y);
    ReferenceFlat flat;
    update_running_statistics(flat, batch, spec_.input.size() / spec_.input[1], running);
  }
  void statistics(const Tensor& x, Statistics batch) override {
    check_image("x", x, spec_.input);
    check_channels("mean and variance", spec_, batch);
    reference::batch_statistics<float>(spec_, host(x.span()), host(batch.first), host(batch.second));
  }
  void normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                 Tensor& y) override {
    check_normalise(spec_, x, residual, w, s, y);
    reference::batch_norm_forward<float>(spec_, host(x.span()), host(residual), channels(w, s),
                                         host(y.span()));
    rounding_.round(host(y.span()));
  }
  void backward_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                     const Tensor* more_dy, Tensor* dresidual, ScaleShiftGradients sums) override {
    check_backward_sums(spec_, x, y, w, s, dy, more_dy, dresidual, sums);
    reference::batch_norm_backward_sums<float>(
        spec_, host(x.span()), host(y.span()), channels(w, s), host(dy.span()), host(more_dy),
        dresidual == nullptr ? std::span<float>{} : host(dresidual->span()), host(sums.first),
        host(sums.second));
    if (dresidual != nullptr) rounding_.round(host(dresidual->span()));
  }
  void backward_data(const Tensor& x, ScaleShift w, GivenStatistics s, GivenStatistics sums, double count,
                     const Tensor& dy, Tensor& dx) override {
    check_backward_data(spec_, x, w, s, sums, count, dy, dx);
    reference::batch_norm_backward_data<float>(spec_, host(x.span()), channels(w, s), host(sums.first),
                                               host(sums.second), count, host(dy.span()), host(dx.span()));
    rounding_.round(host(dx.span()));
  }
  void backward(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                const Tensor* more_dy, ScaleShiftGradients gradients, Tensor& dx,
                Tensor* dresidual) override {
    check_channels("the gradients", spec_, gradients);
    const std::size_t count = sums_.size() / 2;
    const ScaleShiftGradients sums{sums_.span().subspan(0, count), sums_.span().subspan(count, count)};
    backward_sums(x, y, w, s, dy, more_dy, dresidual, sums);
    for (std::size_t c = 0; c < count; ++c) {
      float& scale = host(gradients.first)[c];
      float& shift = host(gradients.second)[c];
      scale = (spec_.accumulate ? scale : 0.0F) + host(sums.first)[c];
      shift = (spec_.accumulate ? shift : 0.0F) + host(sums.second)[c];
    }
    backward_data(x, w, s, sums, static_cast<double>(spec_.input.size() / spec_.input[1]),
                  dresidual == nullptr ? dy : *dresidual, dx);
  }

 private:
  static reference::Channels<float> channels(const ScaleShift& w, const GivenStatistics& s) {
    return {host(w.first), host(w.second), host(s.first), host(s.second)};
  }

  BatchNormSpec spec_;
  reference::Rounding rounding_;
  Storage sums_;
};

class ReferenceLayerNorm : public LayerNorm {
 public:
  ReferenceLayerNorm(const LayerNormSpec& spec, reference::Rounding rounding)
      : spec_(spec), rounding_(rounding) {
    check_spec(spec);
  }
  void forward(const Tensor& x, ScaleShift w, Tensor& y) override {
    check_layer_norm(spec_, {&x, &y}, w);
    reference::layer_norm_forward<float>(spec_, host(x.span()), host(w.first), host(w.second),
                                         host(y.span()));
    rounding_.round(host(y.span()));
  }
  void backward(const Tensor& x, ScaleShift w, const Tensor& dy, ScaleShiftGradients gradients,
                Tensor& dx) override {
    check_layer_norm(spec_, {&x, &dy, &dx}, w);
    check_layer_norm(spec_, {}, gradients);
    reference::layer_norm_backward<float>(spec_, host(x.span()), host(w.first), host(dy.span()),
                                          host(gradients.first), host(gradients.second), host(dx.span()));
    rounding_.round(host(dx.span()));
  }

 private:
  LayerNormSpec spec_;
  reference::Rounding rounding_;
};

class ReferencePool2d final : public Pool2d {
 public:
  ReferencePool2d(const Pool2dSpec& spec, reference::Rounding rounding) : spec_(spec), rounding_(rounding) {
    check_spec(spec);
    chosen_.resize(static_cast<std::size_t>(output_shape().size()));
  }
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  void forward(const Tensor& x, Tensor& y) override {
    check_image("x", x, spec_.input);
    check_image("y", y, output_shape());
    reference::pool2d_forward<float>(spec_, host(x.span()), host(y.span()), chosen_);
    rounding_.round(host(y.span()));
  }
  void backward(const Tensor& dy, Tensor& dx) override {
    check_image("dy", dy, output_shape());
    check_image("dx", dx, spec_.input);
    reference::pool2d_backward<float>(spec_, host(dy.span()), chosen_, host(dx.span()));
    rounding_.round(host(dx.span()));
  }

 private:
  Pool2dSpec spec_;
  reference::Rounding rounding_;
  std::vector<std::size_t> chosen_;
};

class ReferenceElementwise : public Elementwise {
 public:
  ReferenceElementwise(const ElementwiseSpec& spec, reference::Rounding rounding)
      : spec_(spec), rounding_(rounding) {}
  void forward(const Tensor& x, Tensor& y) override {
    check_elementwise(spec_, {&x, &y});
    reference::elementwise_forward<float>(spec_.function, host(x.span()), host(y.span()));
    rounding_.round(host(y.span()));
  }
  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) override {
    check_elementwise(spec_, {&x, &y, &dy, &dx});
    reference::elementwise_backward<float>(spec_.function, host(x.span()), host(dy.span()), host(dx.span()));
    rounding_.round(host(dx.span()));
  }

 private:
  ElementwiseSpec spec_;
  reference::Rounding rounding_;
};

class ReferenceDropout : public Dropout {
 public:
  ReferenceDropout(const DropoutSpec& spec, reference::Rounding rounding) : spec_(spec), rounding_(rounding) {
    check_spec(spec);
  }
  void forward(std::uint64_t step, const Tensor& x, Tensor& y) override { mask(step, x, y); }
  void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) override { mask(step, dy, dx); }

 private:
  void mask(std::uint64_t step, const Tensor& from, Tensor& to) {
    check_dropout(spec_, step, from, to);
    const float factor = 1.0F / (1.0F - spec_.probability);
    for (std::int64_t i = 0; i < spec_.input.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const bool kept = dropout_words(spec_, step, i / 4)[at % 4] >= dropout_threshold(spec_);
      host(to.span())[at] = kept ? factor * host(from.span())[at] : 0.0F;
    }
    rounding_.round(host(to.span()));
  }

  DropoutSpec spec_;
  reference::Rounding rounding_;
};

class ReferenceLayers : public Layers {
 public:
  ReferenceLayers(const reference::TaggedMemory& memory, reference::Rounding rounding,
                  reference::Rounding weight_gradients)
      : memory_(memory), rounding_(rounding), weight_gradients_(weight_gradients) {}
  std::unique_ptr<Linear> linear(const LinearSpec& spec) override {
    return std::make_unique<ReferenceLinear>(spec, rounding_);
  }
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) override {
    return std::make_unique<ReferenceConv2d>(spec, rounding_, weight_gradients_);
  }
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) override {
    return std::make_unique<ReferenceBatchNorm>(spec, memory_, rounding_);
  }
  std::unique_ptr<LayerNorm> layer_norm(const LayerNormSpec& spec) override {
    return std::make_unique<ReferenceLayerNorm>(spec, rounding_);
  }
  std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) override {
    return std::make_unique<ReferencePool2d>(spec, rounding_);
  }
  std::unique_ptr<Elementwise> elementwise(const ElementwiseSpec& spec) override {
    return std::make_unique<ReferenceElementwise>(spec, rounding_);
  }
  std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) override {
    return std::make_unique<ReferenceDropout>(spec, rounding_);
  }
  std::unique_ptr<Loss> softmax_loss(const SoftmaxLossSpec& spec) override {
    return std::make_unique<ReferenceSoftmaxLoss>(spec, rounding_);
  }
  std::unique_ptr<Loss> output_loss(const OutputLossSpec& spec) override {
    return std::make_unique<ReferenceOutputLoss>(spec, rounding_);
  }

 private:
  const reference::TaggedMemory& memory_;
  reference::Rounding rounding_;
  reference::Rounding weight_gradients_;  // of convolutions
};

}  // namespace

std::unique_ptr<Layers> make_reference_layers(const reference::TaggedMemory& memory,
                                              reference::Rounding rounding,
                                              reference::Rounding weight_gradients) {
  return std::make_unique<ReferenceLayers>(memory, rounding, weight_gradients);
}

}  // namespace flotilla
