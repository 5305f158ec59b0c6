// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/conv_layer.hpp"
#include "models/layer_list.hpp"

namespace flotilla {

namespace {

/// y = body(x) + shortcut(x), and ReLU of the sum where `relu` says so. Body and shortcut are layers one
/// after another; an empty shortcut is x itself. Layers are made in the order body, shortcut. The body holds
/// no other residual: its gradients would need a fourth slot of ActivationMemory.
class ResidualLayer : public Layer {
 public:
  struct Parts {
    std::vector<std::unique_ptr<Layer>> body;
    std::vector<std::unique_ptr<Layer>> shortcut;
    bool relu = false;
  };
  ResidualLayer(const Building& network, std::string name, Parts parts);

  std::string_view name() const override { return name_; }
  const Shape& output_shape() const override { return shape_; }
  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  std::int64_t first_offset() const override { return body_.layers.front()->first_offset(); }

 private:
  struct Chain {
    std::vector<std::unique_ptr<Layer>> layers;
    std::vector<const Tensor*> inputs{};  ///< Of each layer, in the last forward pass

    const Tensor& forward(const Tensor& x, const PassInfo& info);
    Tensor& backward(Tensor& dy);
    void time_alone(TimedOperations& operations);
  };

  std::string name_;
  Device& device_;
  ActivationMemory& memory_;
  Chain body_;
  Chain shortcut_;
  bool relu_;
  Shape shape_;
  Tensor y_;
  ActivationMemory::Gradient dsum_;
};

const Tensor& ResidualLayer::Chain::forward(const Tensor& x, const PassInfo& info) {
  const Tensor* y = &x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    inputs[i] = y;
    y = &layers[i]->forward(*y, info);
  }
  return *y;
}

Tensor& ResidualLayer::Chain::backward(Tensor& dy) {
  OutputGradient gradient{.first = &dy};
  for (std::size_t i = layers.size(); i-- > 0;) gradient = layers[i]->backward(*inputs[i], gradient);
  return *gradient.first;
}

void ResidualLayer::Chain::time_alone(TimedOperations& operations) {
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i]->time_alone(*inputs[i], operations);
}

ResidualLayer::ResidualLayer(const Building& network, std::string name, Parts parts)
    : name_(std::move(name)),
      device_(network.device),
      memory_(network.memory),
      body_{std::move(parts.body)},
      shortcut_{std::move(parts.shortcut)},
      relu_(parts.relu),
      shape_(body_.layers.back()->output_shape()) {
  body_.inputs.resize(body_.layers.size());
  shortcut_.inputs.resize(shortcut_.layers.size());
  memory_.keep(shape_, y_);
  memory_.plan_gradient(shape_, dsum_);
}

void ResidualLayer::bind(const Arenas& arenas) {
  for (const auto* chain : {&body_, &shortcut_})
    for (const auto& layer : chain->layers) layer->bind(arenas);
}

const Tensor& ResidualLayer::forward(const Tensor& x, const PassInfo& info) {
  const Tensor& body = body_.forward(x, info);
  const Tensor& shortcut = shortcut_.forward(x, info);
  const trace::Span span("sum forward");
  if (relu_) {
    device_.images().add_relu(body, shortcut, y_);
  } else {
    device_.images().copy(body, y_);
    device_.images().add(shortcut, y_);
  }
  return y_;
}

OutputGradient ResidualLayer::backward(const Tensor&, OutputGradient dy) {
  require(dy.more == nullptr, name_, " cannot add two gradients");
  Tensor& dsum = memory_.take(dsum_);
  {
    const trace::Span span("sum backward");
    if (relu_) device_.images().add_relu_backward(y_, *dy.first, *dy.first);
    device_.images().copy(*dy.first, dsum);
  }
  Tensor& dbody = body_.backward(*dy.first);
  Tensor& dshortcut = shortcut_.backward(dsum);
  device_.images().add(dshortcut, dbody);
  memory_.give_back(dshortcut);
  return {.first = &dbody};
}

void ResidualLayer::time_alone(const Tensor&, TimedOperations& operations) {
  body_.time_alone(operations);
  shortcut_.time_alone(operations);
}

}  // namespace

const LayerKind residual_kind = {
    .word = "residual",
    .usage = "residual [projection]",
    .read = [](ArgumentReader& reader,
               LayerArguments& layer) { layer.projection = reader.take("projection"); },
    .plan =
        [](LayerSite& site, PlannedLayer& layer) {
          site.needs_plain_rows();
          if (layer.arguments.projection) static_cast<void>(site.batch());
        },
    .make = [](LayerBuilder& builder, const PlannedLayer&) -> std::unique_ptr<Layer> {
      builder.begin_residual();
      return nullptr;
    },
    .graph = [](GraphWalk& walk, const std::string& x, const PlannedLayer&) { return walk.shortcut() = x; }};

/// Plans what closes a residual: layer.input is the residual's, layer.arguments.projection its option.
const LayerKind end_kind = {
    .word = "end",
    .usage = "end",
    .plan =
        [](LayerSite& site, PlannedLayer& layer) {
          const Shape& from = layer.input;
          const Shape& to = site.shape;
          if (!layer.arguments.projection) {
            if (from == to) return;
            throw UserError(
                cat("the residual begins with ", from.text(), " values and ends with ", to.text(),
                    ": write \"residual projection\", whose shortcut is a convolution and batch_norm, or "
                    "keep the shape"));
          }
          for (std::int64_t stride = 1; stride <= std::max(from[1], from[2]) && layer.shortcut_stride == 0;
               ++stride)
            if (windows(from[1], 1, stride, 0) == to[1] && windows(from[2], 1, stride, 0) == to[2])
              layer.shortcut_stride = stride;
          if (layer.shortcut_stride == 0)
            throw UserError(cat("no stride of a projection makes images ", to.text(), " of ", from.text()));
          layer.parameters = to[0] * (from[0] + 2);
        },
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      ResidualLayer::Parts parts{.body = builder.end_residual(), .shortcut = {}};
      if (layer.shortcut_stride > 0) {
        const std::string name = layer.name + ".shortcut.";
        const Conv2dSpec conv{.input = builder.batch_of(layer.input),
                              .out_channels = layer.output[0],
                              .stride = layer.shortcut_stride,
                              .accumulate = builder.use().accumulate};
        parts.shortcut.push_back(
            std::make_unique<ConvLayer>(builder.building(), name + "0", conv, builder.use().initializer));
        parts.shortcut.push_back(make_batch_norm(builder, name + "1", builder.batch_of(layer.output), false));
      }
      parts.relu = builder.takes(Activation::relu);
      return std::make_unique<ResidualLayer>(builder.building(), layer.name, std::move(parts));
    },
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer& layer) {
          std::string shortcut = walk.shortcut();
          if (layer.shortcut_stride > 0)
            shortcut = walk.graph().convolution(shortcut, {.name = layer.name + ".shortcut.0",
                                                           .stride = layer.shortcut_stride,
                                                           .norm = layer.name + ".shortcut.1"});
          return walk.graph().sum(x, shortcut);
        }};

}  // namespace flotilla
