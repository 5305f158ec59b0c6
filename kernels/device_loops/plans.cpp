// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_loops/plans.hpp"

#include <algorithm>

#include "kernels/device_loops/value_checks.hpp"
#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

void check_shape(const char* name, const Tensor& tensor, const Shape& shape) {
  require(tensor.shape() == shape, name, " must be ", shape.text(), ", is ", tensor.shape().text());
}

void check_nhwc(const char* name, const Tensor& tensor, const Shape& shape) {
  check_shape(name, tensor, shape);
  require(is_nhwc(tensor), name, " must be an image tensor (NHWC), not a plain one");
}

class LoopsBatchNorm : public BatchNorm {
 public:
  LoopsBatchNorm(const LoopsContext& context, const BatchNormSpec& spec) : context_(context), spec_(spec) {
    check_spec(spec);
    if (spec.accumulate) sums_ = context.memory.allocate(2 * static_cast<std::size_t>(spec.input[1]));
  }

  void forward(const Tensor& x, const Tensor* residual, ScaleShift w, Statistics batch, Tensor& y) override {
    statistics(x, batch);
    normalise(x, residual, w, batch, y);
  }
  void statistics(const Tensor& x, Statistics batch) override {
    context_.loops.norm_statistics(spec_, values("x", x), batch);
  }
  void normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                 Tensor& y) override {
    context_.loops.normalise(spec_, values("x", x), values("the residual", residual), w, s, values("y", y));
  }
  void backward_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                     const Tensor* more_dy, Tensor* dresidual, ScaleShiftGradients sums) override {
    add_gradients(x, y, w, s, dy, more_dy, dresidual, sums, {});
  }
  void backward_data(const Tensor& x, ScaleShift w, GivenStatistics s, GivenStatistics sums, double count,
                     const Tensor& dy, Tensor& dx) override {
    context_.loops.norm_backward_data(spec_, values("x", x), w, s, sums, count, values("dy", dy),
                                      values("dx", dx));
  }
  void backward(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                const Tensor* more_dy, ScaleShiftGradients gradients, Tensor& dx,
                Tensor* dresidual) override {
    const auto channels = static_cast<std::size_t>(spec_.input[1]);
    ScaleShiftGradients sums = gradients;
    if (spec_.accumulate)
      sums = {sums_.span().subspan(0, channels), sums_.span().subspan(channels, channels)};
    add_gradients(x, y, w, s, dy, more_dy, dresidual, sums,
                  spec_.accumulate ? gradients : ScaleShiftGradients{});
    backward_data(x, w, s, sums, static_cast<double>(spec_.input.size() / spec_.input[1]),
                  dresidual == nullptr ? dy : *dresidual, dx);
  }

 private:
  void add_gradients(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s, const Tensor& dy,
                     const Tensor* more_dy, Tensor* dresidual, ScaleShiftGradients sums,
                     ScaleShiftGradients gradients) {
    require(more_dy == nullptr || spec_.after == AfterNorm::add_relu,
            "a second gradient of y is for add_relu only");
    const NormGradients in{.x = values("x", x),
                           .y = values("y", y),
                           .dy = values("dy", dy),
                           .more_dy = values("the second dy", more_dy)};
    const Values result = dresidual == nullptr ? Values{} : values("dresidual", *dresidual);
    context_.loops.norm_backward_sums(spec_, in, w, s, result, sums, gradients);
  }
  GivenValues values(const char* name, const Tensor& tensor) const {
    check_nhwc(name, tensor, spec_.input);
    return values_of(tensor, context_.precision);
  }
  Values values(const char* name, Tensor& tensor) const {
    check_nhwc(name, tensor, spec_.input);
    return values_of(tensor, context_.precision);
  }
  GivenValues values(const char* name, const Tensor* tensor) const {
    return tensor == nullptr ? GivenValues{} : values(name, *tensor);
  }

  LoopsContext context_;
  BatchNormSpec spec_;
  Storage sums_;  // with accumulate: what this call adds
};

class LoopsPool2d : public Pool2d {
 public:
  LoopsPool2d(const LoopsContext& context, const Pool2dSpec& spec) : context_(context), spec_(spec) {
    check_spec(spec);
    check_32_bit_size("pooling on a GPU", spec.input);
    const auto places = static_cast<std::size_t>(output_shape().size());
    if (spec.kind == Pooling::max) chosen_ = context.memory.allocate((places + 3) / 4);
  }
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  void forward(const Tensor& x, Tensor& y) override {
    check_nhwc("x", x, spec_.input);
    check_nhwc("y", y, output_shape());
    context_.loops.pool(spec_, values_of(x, context_.precision), values_of(y, context_.precision), chosen());
  }
  void backward(const Tensor& dy, Tensor& dx) override {
    check_nhwc("dy", dy, output_shape());
    check_nhwc("dx", dx, spec_.input);
    context_.loops.pool_backward(spec_, chosen(), values_of(dy, context_.precision),
                                 values_of(dx, context_.precision));
  }

 private:
  std::uint8_t* chosen() { return reinterpret_cast<std::uint8_t*>(chosen_.span().address()); }

  LoopsContext context_;
  Pool2dSpec spec_;
  Storage chosen_;  // bytes: where in its window the largest value is
};

class LoopsDropout : public Dropout {
 public:
  LoopsDropout(const LoopsContext& context, const DropoutSpec& spec) : context_(context), spec_(spec) {
    check_spec(spec);
  }
  void forward(std::uint64_t step, const Tensor& x, Tensor& y) override { mask(step, x, y); }
  void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) override { mask(step, dy, dx); }

 private:
  void mask(std::uint64_t step, const Tensor& from, Tensor& to) {
    check_shape("dropout's input", from, spec_.input);
    check_shape("dropout's output", to, spec_.input);
    require(from.layout() == nullptr && to.layout() == nullptr, "dropout takes plain tensors only");
    require(step < (std::uint64_t{1} << 40), "dropout's step must be below 2^40, got ", step);
    context_.loops.dropout(spec_, step, values_of(from, context_.precision),
                           values_of(to, context_.precision));
  }

  LoopsContext context_;
  DropoutSpec spec_;
};

class LoopsSoftmaxLoss : public SoftmaxLoss {
 public:
  LoopsSoftmaxLoss(const LoopsContext& context, const SoftmaxLossSpec& spec)
      : context_(context), spec_(spec), rows_(static_cast<std::size_t>(spec.batch)) {
    check_spec(spec);
    normalisers_ = context.memory.allocate(2 * rows_);
    labels_ = context.memory.allocate(rows_);
    other_labels_ = context.memory.allocate(rows_);
  }

  void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) override {
    check_targets(spec_, targets);
    upload(targets.labels, labels_);
    if (targets.other_share > 0.0F) upload(targets.other_labels, other_labels_);
    context_.loops.softmax_loss(spec_, values_of(logits, context_.precision), on_device(targets),
                                normalisers_.span(), sums);
  }
  void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> scale,
                Tensor& dlogits) override {
    check_targets(spec_, targets);
    check_shape("the logits' gradient", dlogits, logits.shape());
    context_.loops.softmax_loss_backward(spec_, values_of(logits, context_.precision), on_device(targets),
                                         normalisers_.span(), scale, values_of(dlogits, context_.precision));
  }

 private:
  /// Devices copy floats; what their bits mean is up to the reader.
  void upload(std::span<const std::int32_t> labels, Storage& to) {
    const std::size_t count = std::min(labels.size(), rows_);
    context_.memory.upload({reinterpret_cast<const float*>(labels.data()), count},
                           to.span().subspan(0, count));
  }
  DeviceTargets on_device(const Targets& targets) {
    return {.labels = reinterpret_cast<const std::int32_t*>(labels_.span().address()),
            .valid = targets.valid,
            .other_labels = reinterpret_cast<const std::int32_t*>(other_labels_.span().address()),
            .other_share = targets.other_share};
  }

  LoopsContext context_;
  SoftmaxLossSpec spec_;
  std::size_t rows_ = 0;
  Storage normalisers_;
  Storage labels_;
  Storage other_labels_;
};

}  // namespace

bool is_nhwc(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  return dynamic_cast<const NhwcLayout*>(tensor.layout()) != nullptr ||
         (shape.rank() == 4 && (shape[1] == 1 || shape[2] * shape[3] == 1));
}

std::size_t floats_of(std::int64_t size, Precision precision) {
  const auto values = static_cast<std::size_t>(size);
  return is_half(precision) ? (values + 1) / 2 : values;
}

Values values_of(Tensor& tensor, Precision precision) {
  const std::int64_t size = tensor.shape().size();
  require(tensor.span().size() >= floats_of(size, precision), "a tensor of ", tensor.shape().text(), " in ",
          tensor.span().size(), " floats of storage is too small");
  return {tensor.span().address(), size, precision};
}

GivenValues values_of(const Tensor& tensor, Precision precision) {
  const std::int64_t size = tensor.shape().size();
  require(tensor.span().size() >= floats_of(size, precision), "a tensor of ", tensor.shape().text(), " in ",
          tensor.span().size(), " floats of storage is too small");
  return {tensor.span().address(), size, precision};
}

std::unique_ptr<BatchNorm> make_batch_norm(const LoopsContext& context, const BatchNormSpec& spec) {
  return std::make_unique<LoopsBatchNorm>(context, spec);
}
std::unique_ptr<Pool2d> make_pool2d(const LoopsContext& context, const Pool2dSpec& spec) {
  return std::make_unique<LoopsPool2d>(context, spec);
}
std::unique_ptr<Dropout> make_dropout(const LoopsContext& context, const DropoutSpec& spec) {
  return std::make_unique<LoopsDropout>(context, spec);
}
std::unique_ptr<SoftmaxLoss> make_softmax_loss(const LoopsContext& context, const SoftmaxLossSpec& spec) {
  return std::make_unique<LoopsSoftmaxLoss>(context, spec);
}

}  // namespace flotilla
