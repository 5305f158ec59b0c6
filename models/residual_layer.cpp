// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer_list.hpp"
#include "models/layers.hpp"

namespace flotilla {

namespace {

/// Layers that are one layer of the network.
class PartLayer : public Layer {
 public:
  /// @param recompute only the output is kept for backward
  PartLayer(std::string name, Chain body, bool recompute)
      : Layer(std::move(name), body.layers().back()->output_shape(), body.layers().front()->first_offset()),
        body_(std::move(body)),
        recompute_(recompute) {}

  void bind(const Arenas& arenas) override { body_.bind(arenas); }
  std::shared_ptr<const Layout> batch_layout() const override {
    return body_.layers().front()->batch_layout();
  }
  const Tensor& forward(const Tensor& x, const PassInfo& info) override { return body_.forward(x, info); }
  OutputGradient backward(const Tensor&, OutputGradient dy) override {
    if (recompute_) {
      const trace::Span span("recompute");
      body_.replay(body_.layers().size() - 1);
    }
    return body_.backward(dy);
  }
  void time_alone(const Tensor&, TimedOperations& operations) override { body_.time_alone(operations); }
  bool adds_gradients() const override { return body_.layers().back()->adds_gradients(); }
  /// Checks the input of the last layer, because oneDNN's max pooling ignores NaN.
  bool finite(Device& device, const Tensor&) const override {
    return device.tensors().all_finite(body_.input(body_.layers().size() - 1));
  }

 private:
  Chain body_;
  bool recompute_;
};

/// y = body(x) + shortcut(x), and ReLU of the sum where `relu` says so. An empty shortcut is x itself. Layers
/// are made in the order body, norm, shortcut. The body holds no other residual: its gradients would need a
/// fourth slot of ActivationMemory.
class ResidualLayer : public Layer {
 public:
  struct Parts {
    Chain body{};
    /// Makes the sum and its ReLU, on what the body makes. Null: they are passes of their own
    std::unique_ptr<BatchNormLayer> norm{};
    Chain shortcut{};
    bool relu = false;
    bool recompute = false;        ///< Only y is kept for backward; with `norm`
    bool splits_gradient = false;  ///< The layer in front takes a gradient in two parts; with `norm`
  };
  ResidualLayer(const Building& network, std::string name, Parts parts);

  void bind(const Arenas& arenas) override;
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor& x, TimedOperations& operations) override;
  bool adds_gradients() const override { return parts_.norm != nullptr; }

 private:
  const Tensor& sum(const Tensor& body, const Tensor& shortcut);
  /// @returns first the gradient of what the body makes, then that of the shortcut
  OutputGradient sum_backward(Tensor& dy);
  void replay();

  Device& device_;
  ActivationMemory& memory_;
  Parts parts_;
  Tensor y_;  ///< Output without `norm`
  ActivationMemory::Gradient dsum_;
};

ResidualLayer::ResidualLayer(const Building& network, std::string name, Parts parts)
    : Layer(std::move(name),
            parts.norm ? parts.norm->output_shape() : parts.body.layers().back()->output_shape(),
            (parts.body.empty() ? *parts.norm : *parts.body.layers().front()).first_offset()),
      device_(network.device),
      memory_(network.memory),
      parts_(std::move(parts)) {
  memory_.plan_gradient(output_shape(), dsum_);
  if (parts_.norm && !parts_.shortcut.empty()) {
    auto* const norm = dynamic_cast<BatchNormLayer*>(parts_.shortcut.layers().back().get());
    if (norm != nullptr) norm->leave_to(*parts_.norm);
  }
  if (!parts_.norm) memory_.keep(output_shape(), y_);
}

void ResidualLayer::bind(const Arenas& arenas) {
  parts_.body.bind(arenas);
  if (parts_.norm) parts_.norm->bind(arenas);
  parts_.shortcut.bind(arenas);
}

const Tensor& ResidualLayer::forward(const Tensor& x, const PassInfo& info) {
  const Tensor& shortcut = parts_.shortcut.forward(x, info);
  const Tensor& body = parts_.body.forward(x, info);
  if (!parts_.norm) return sum(body, shortcut);
  parts_.norm->add(shortcut);
  return parts_.norm->forward(body, info);
}

const Tensor& ResidualLayer::sum(const Tensor& body, const Tensor& shortcut) {
  const trace::Span span("sum forward");
  if (parts_.relu) {
    device_.images().add_relu(body, shortcut, y_);
  } else {
    device_.images().copy(body, y_);
    device_.images().add(shortcut, y_);
  }
  return y_;
}

OutputGradient ResidualLayer::backward(const Tensor&, OutputGradient dy) {
  if (parts_.recompute) replay();
  const OutputGradient dsum =
      parts_.norm ? parts_.norm->backward(parts_.body.output(), dy) : sum_backward(single(dy));
  Tensor* const dbody = parts_.body.backward({.first = dsum.first}).first;
  Tensor* const dshortcut = parts_.shortcut.backward({.first = dsum.more}).first;
  if (parts_.splits_gradient) return {.first = dbody, .more = dshortcut};
  device_.images().add(*dshortcut, *dbody);
  memory_.give_back(*dshortcut);
  return {.first = dbody};
}

OutputGradient ResidualLayer::sum_backward(Tensor& dy) {
  const trace::Span span("sum backward");
  Tensor& dsum = memory_.take(dsum_);
  if (parts_.relu) device_.images().add_relu_backward(y_, dy, dy);
  device_.images().copy(dy, dsum);
  return {.first = &dy, .more = &dsum};
}

void ResidualLayer::replay() {
  const trace::Span span("recompute");
  parts_.body.replay(parts_.body.layers().size());
  if (!parts_.shortcut.empty()) parts_.shortcut.replay(parts_.shortcut.layers().size() - 1);
}

void ResidualLayer::time_alone(const Tensor&, TimedOperations& operations) {
  if (parts_.norm && !parts_.splits_gradient)
    operations.backward.push_back({"sum of two gradients", "sum", 0.0, [this] {
                                     device_.images().add(ActivationMemory::view(dsum_, 1),
                                                          ActivationMemory::view(dsum_, 0));
                                   }});
  parts_.shortcut.time_alone(operations);
  parts_.body.time_alone(operations);
  if (parts_.norm) parts_.norm->time_alone(parts_.body.output(), operations);
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
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      const bool fused = layer.arguments.fused;
      ResidualLayer::Parts parts{.recompute = layer.arguments.recompute,
                                 .splits_gradient = fused && builder.may_split_gradient()};
      builder.begin_residual();
      PlanReader& plan = builder.plan();
      parts.body = Chain(builder.row(fused));
      if (fused) parts.norm = make_batch_norm(builder, plan.take(), AfterNorm::add_relu);
      if (plan.take_if(shortcut_kind) != nullptr) parts.shortcut = Chain(builder.row());
      plan.take();  // end
      parts.relu = plan.take_if(Activation::relu);
      return std::make_unique<ResidualLayer>(builder.building(layer), layer.name, std::move(parts));
    },
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer&) {
          const std::string body = walk.walk(x);
          const bool has_layers = walk.plan().take_if(shortcut_kind) != nullptr;
          const std::string shortcut = has_layers ? walk.walk(x) : x;
          walk.plan().take();  // end
          return walk.graph().node("Add", {body, shortcut});
        }};

const LayerKind shortcut_kind = {.word = "shortcut", .usage = "shortcut"};

const LayerKind end_kind = {.word = "end", .usage = "end"};

const LayerKind part_kind = {
    .word = "part",
    .usage = "part",
    .takes_batch = true,
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      Chain body(builder.row());
      builder.plan().take();  // end
      return std::make_unique<PartLayer>(layer.name, std::move(body), layer.arguments.recompute);
    },
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer&) {
          std::string y = walk.walk(x);
          walk.plan().take();  // end
          return y;
        }};

}  // namespace flotilla
