// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer_list.hpp"

namespace flotilla {

namespace {

/// Layer normalisation of rows (N,C): tensors "<name>.weight" (C), 1 at first, and "<name>.bias" (C), 0.
class LayerNormLayer : public Layer {
 public:
  LayerNormLayer(const Building& network, std::string name, const LayerNormSpec& spec);
  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;

 private:
  std::unique_ptr<LayerNorm> plan_;
  Slice scale_slice_, shift_slice_;
  ScaleShift weights_;
  ScaleShiftGradients gradients_;
  Tensor y_;
  ActivationMemory::Gradient dy_;  ///< To time backward alone
};

LayerNormLayer::LayerNormLayer(const Building& network, std::string name, const LayerNormSpec& spec)
    : Layer(network, std::move(name), {spec.rows, spec.columns}),
      plan_(network.device.layers().layer_norm(spec)) {
  const auto add = [&](const char* ending, Initializer::Kind kind) {
    return network.parameters.add({.name = this->name() + ending,
                                   .shape = {spec.columns},
                                   .kind = ParameterKind::batch_norm,
                                   .initializer = {.kind = kind}});
  };
  scale_slice_ = add(".weight", Initializer::Kind::ones);
  shift_slice_ = add(".bias", Initializer::Kind::zeros);
  network.memory.keep(output_shape(), y_);
  network.memory.plan_gradient(output_shape(), dy_);
}

void LayerNormLayer::bind(const Arenas& arenas) {
  weights_ = {part_of<const float>(arenas.parameters, scale_slice_),
              part_of<const float>(arenas.parameters, shift_slice_)};
  gradients_ = {part_of(arenas.gradients, scale_slice_), part_of(arenas.gradients, shift_slice_)};
}

const Tensor& LayerNormLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("layer norm forward");
  plan_->forward(x, weights_, y_);
  return y_;
}

OutputGradient LayerNormLayer::backward(const Tensor& x, OutputGradient dy) {
  const trace::Span span("layer norm backward");
  plan_->backward(x, weights_, single(dy), gradients_, *dy.first);
  return dy;
}

void LayerNormLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name() + " forward", "layer norm forward", 0.0, [this, &x] { plan_->forward(x, weights_, y_); }});
  operations.backward.push_back({name() + " backward", "layer norm backward", 0.0, [this, &x] {
                                   Tensor& dy = ActivationMemory::view(dy_, 0);
                                   plan_->backward(x, weights_, dy, gradients_, dy);
                                 }});
}

}  // namespace

const LayerKind layer_norm_kind = {
    .word = "layer_norm",
    .usage = "layer_norm",
    .plan =
        [](LayerSite& site, PlannedLayer& layer) {
          site.needs_plain_rows();
          if (site.is_image())
            throw UserError("layer_norm takes rows: put it behind linear or global_average_pool");
          layer.parameters = 2 * site.shape[0];
        },
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      return std::make_unique<LayerNormLayer>(builder.building(layer), layer.name,
                                              LayerNormSpec{.rows = builder.use().batch,
                                                            .columns = layer.input[0],
                                                            .accumulate = builder.use().accumulate});
    },
    .graph = [](GraphWalk& walk, const std::string& x,
                const PlannedLayer& layer) { return walk.graph().layer_norm(x, layer.name); }};

}  // namespace flotilla
