// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer_list.hpp"
#include "models/layers.hpp"

namespace flotilla {

ConvLayer::ConvLayer(const Building& network, std::string name, const Conv2dSpec& spec,
                     const Initializer& initializer)
    : Layer(network, std::move(name), flotilla::output_shape(spec)),
      memory_(network.memory),
      plan_(network.device.layers().conv2d(spec)),
      bias_(spec.bias),
      input_gradient_(spec.input_gradient) {
  const Conv2d* plan = plan_.get();
  const std::int64_t window = spec.kernel * spec.kernel;
  weight_slice_ = network.parameters.add(
      {.name = this->name() + ".weight",
       .shape = {spec.out_channels, spec.input[1] / spec.groups, spec.kernel, spec.kernel},
       .kind = ParameterKind::weight,
       .initializer = initializer,
       .fan_in = spec.input[1] / spec.groups * window,
       .fan_out = spec.out_channels * window,
       .stored_size = plan->weight_size(),
       .from_plain = [plan](auto plain, auto stored) { plan->weight_from_plain(plain, stored); },
       .to_plain = [plan](auto stored, auto plain) { plan->weight_to_plain(stored, plain); }});
  if (bias_)
    bias_slice_ = network.parameters.add({.name = this->name() + ".bias",
                                          .shape = {spec.out_channels},
                                          .kind = ParameterKind::bias,
                                          .initializer = {.kind = Initializer::Kind::zeros}});
  network.place(output_shape(), y_);
  memory_.plan_gradient(output_shape(), dy_);
  if (input_gradient_) memory_.plan_gradient(spec.input, dx_);
}

void ConvLayer::bind(const Arenas& arenas) {
  weights_ = weights_of(arenas, weight_slice_, bias_ ? &bias_slice_ : nullptr);
  gradients_ = {part_of(arenas.gradients, weight_slice_), {}};
  if (bias_) gradients_.bias = part_of(arenas.gradients, bias_slice_);
}

const Tensor& ConvLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("convolution forward");
  plan_->forward(x, weights_, y_);
  return y_;
}

OutputGradient ConvLayer::backward(const Tensor& x, OutputGradient dy) {
  {
    const trace::Span span("convolution backward weights");
    plan_->backward_weights(x, single(dy), gradients_);
  }
  Tensor* dx = nullptr;
  if (input_gradient_) {
    const trace::Span span("convolution backward data");
    dx = &memory_.take(dx_);
    plan_->backward_data(*dy.first, weights_, *dx);
  }
  memory_.give_back(*dy.first);
  return {.first = dx};
}

void ConvLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  const auto dy = [this]() -> Tensor& { return ActivationMemory::view(dy_, 0); };
  const auto flop = static_cast<double>(plan_->flops());
  operations.forward.push_back(
      {name() + " forward", "convolution forward", flop, [this, &x] { plan_->forward(x, weights_, y_); }});
  if (input_gradient_)
    operations.backward.push_back({name() + " backward data", "convolution backward data", flop, [this, dy] {
                                     plan_->backward_data(dy(), weights_, ActivationMemory::view(dx_, 1));
                                   }});
  operations.backward.push_back({name() + " backward weights", "convolution backward weights", flop,
                                 [this, &x, dy] { plan_->backward_weights(x, dy(), gradients_); }});
}

namespace {

Conv2dSpec spec_of(const PlannedLayer& layer, const Shape& input) {
  return {.input = input,
          .out_channels = layer.arguments.outputs,
          .kernel = layer.arguments.kernel,
          .stride = layer.arguments.stride,
          .padding = layer.arguments.padding,
          .bias = layer.arguments.bias};
}

}  // namespace

const LayerKind conv_kind = {
    .word = "conv",
    .usage = "conv CHANNELS KERNEL [stride S] [padding P] [no_bias]",
    .takes_batch = true,
    .read =
        [](ArgumentReader& reader, LayerArguments& layer) {
          layer.outputs = reader.count();
          reader.window(layer, true);
        },
    .plan =
        [](LayerSite& site, PlannedLayer& layer) {
          site.needs_room(layer.arguments);
          constexpr std::int64_t max_channels = 4;
          if (site.first && site.shape[0] > max_channels)
            throw UserError(cat("images have at most ", max_channels, " channels"));
          const LayerArguments& given = layer.arguments;
          layer.parameters =
              given.outputs * (site.shape[0] * given.kernel * given.kernel + (given.bias ? 1 : 0));
          const Shape convolved = output_shape(spec_of(layer, site.batch()));
          layer.multiplications = convolved.size() * site.shape[0] * given.kernel * given.kernel;
          site.shape = {convolved[1], convolved[2], convolved[3]};
        },
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      Conv2dSpec spec = spec_of(layer, builder.batch_of(layer.input));
      spec.accumulate = builder.use().accumulate;
      spec.input_gradient = !builder.needs_no_input_gradient();
      return std::make_unique<ConvLayer>(builder.building(layer), layer.name, spec,
                                         builder.initializer(layer));
    },
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer& layer) {
          const LayerArguments& given = layer.arguments;
          const auto inputs = walk.graph().weighted(x, layer.name, given.bias, walk.take_batch_norm());
          return walk.graph().node("Conv", inputs, window_attributes(given), layer.name);
        }};

}  // namespace flotilla
