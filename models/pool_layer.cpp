// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer_list.hpp"
#include "models/layers.hpp"

namespace flotilla {

namespace {

/// The shape of the layer's output: (N, C) for a global average, otherwise (N, C, H, W).
Shape pooled_shape(const Pool2dSpec& spec) {
  const Shape pooled = output_shape(spec);
  return spec.kind == Pooling::global_average ? Shape{pooled[0], pooled[1]} : pooled;
}

}  // namespace

PoolLayer::PoolLayer(const Building& network, std::string name, const Pool2dSpec& spec)
    : Layer(network, std::move(name), pooled_shape(spec)),
      memory_(network.memory),
      plan_(network.device.layers().pool2d(spec)) {
  network.place(plan_->output_shape(), pooled_);
  if (makes_rows()) rows_ = Tensor(output_shape(), pooled_.span());
  memory_.plan_gradient(spec.input, dx_);
}

const Tensor& PoolLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("pooling forward");
  plan_->forward(x, pooled_);
  return makes_rows() ? rows_ : pooled_;
}

OutputGradient PoolLayer::backward(const Tensor&, OutputGradient dy) {
  const trace::Span span("pooling backward");
  Tensor& dx = memory_.take(dx_);
  if (dy.more != nullptr) {
    plan_->backward_sum(*dy.first, *dy.more, dx);
    memory_.give_back(*dy.more);
  } else if (makes_rows()) {
    plan_->backward(Tensor(pooled_.shape(), dy.first->span()), dx);
  } else {
    plan_->backward(*dy.first, dx);
  }
  memory_.give_back(*dy.first);
  return {.first = &dx};
}

void PoolLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name() + " forward", "pooling forward", 0.0, [this, &x] { plan_->forward(x, pooled_); }});
  operations.backward.push_back({name() + " backward", "pooling backward", 0.0,
                                 [this] { plan_->backward(pooled_, ActivationMemory::view(dx_, 0)); }});
}

namespace {

Pool2dSpec spec_of(const PlannedLayer& layer, const Shape& input, Pooling kind) {
  return {.input = input,
          .kind = kind,
          .kernel = layer.arguments.kernel,
          .stride = layer.arguments.stride,
          .padding = layer.arguments.padding};
}

/// Pooling over windows.
template <Pooling kind>
constexpr LayerKind window_kind(std::string_view word, std::string_view usage) {
  return {.word = word,
          .usage = usage,
          .read = [](ArgumentReader& reader, LayerArguments& layer) { reader.window(layer, false); },
          .plan =
              [](LayerSite& site, PlannedLayer& layer) {
                site.needs_room(layer.arguments);
                if (2 * layer.arguments.padding > layer.arguments.kernel)
                  throw UserError("the padding of pooling must be at most half its kernel");
                const Shape pooled = output_shape(spec_of(layer, site.batch(), kind));
                site.shape = {pooled[1], pooled[2], pooled[3]};
              },
          .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
            return std::make_unique<PoolLayer>(builder.building(layer), layer.name,
                                               spec_of(layer, builder.batch_of(layer.input), kind));
          },
          .graph =
              [](GraphWalk& walk, const std::string& x, const PlannedLayer& layer) {
                OnnxAttributes attributes = window_attributes(layer.arguments);
                if (kind == Pooling::max) return walk.graph().node("MaxPool", {x}, attributes);
                attributes["count_include_pad"] = std::int64_t{1};
                return walk.graph().node("AveragePool", {x}, attributes);
              }};
}

}  // namespace

const LayerKind max_pool_kind =
    window_kind<Pooling::max>("max_pool", "max_pool KERNEL [stride S] [padding P]");
const LayerKind average_pool_kind = window_kind<Pooling::average_including_padding>(
    "average_pool", "average_pool KERNEL [stride S] [padding P]");

const LayerKind global_average_pool_kind = {
    .word = "global_average_pool",
    .usage = "global_average_pool",
    .gives_logits = true,
    .plan = [](LayerSite& site, PlannedLayer&) { site.shape = {site.batch()[1]}; },
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      return std::make_unique<PoolLayer>(
          builder.building(layer), layer.name,
          Pool2dSpec{.input = builder.batch_of(layer.input), .kind = Pooling::global_average});
    },
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer&) {
          const std::string average = walk.graph().node("GlobalAveragePool", {x});
          return walk.graph().node("Flatten", {average}, {{"axis", std::int64_t{1}}});
        }};

}  // namespace flotilla
