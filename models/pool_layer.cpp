// SPDX-License-Identifier: Apache-2.0
#include "models/pool_layer.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer_list.hpp"

namespace flotilla {

PoolLayer::PoolLayer(const Building& network, std::string name, const Pool2dSpec& spec)
    : name_(std::move(name)),
      memory_(network.memory),
      offset_(network.parameters.layout().size()),
      plan_(network.device.layers().pool2d(spec)),
      shape_(plan_->output_shape()) {
  memory_.keep(shape_, pooled_);
  if (spec.kind == Pooling::global_average) {
    shape_ = {shape_[0], shape_[1]};
    rows_ = Tensor(shape_, pooled_.span());
  }
  memory_.plan_gradient(spec.input, dx_);
}

const Tensor& PoolLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("pooling forward");
  plan_->forward(x, pooled_);
  return makes_rows() ? rows_ : pooled_;
}

OutputGradient PoolLayer::backward(const Tensor&, OutputGradient dy) {
  const trace::Span span("pooling backward");
  require(dy.more == nullptr, name_, " cannot add two gradients");
  Tensor& dx = memory_.take(dx_);
  if (makes_rows())
    plan_->backward(Tensor(pooled_.shape(), dy.first->span()), dx);
  else
    plan_->backward(*dy.first, dx);
  memory_.give_back(*dy.first);
  return {.first = &dx};
}

void PoolLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back(
      {name_ + " forward", "pooling forward", 0.0, [this, &x] { plan_->forward(x, pooled_); }});
  operations.backward.push_back({name_ + " backward", "pooling backward", 0.0,
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
            return std::make_unique<PoolLayer>(builder.building(), layer.name,
                                               spec_of(layer, builder.batch_of(layer.input), kind));
          },
          .graph = [](GraphWalk& walk, const std::string& x,
                      const PlannedLayer& layer) { return walk.graph().pool(x, spec_of(layer, {}, kind)); }};
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
          builder.building(), layer.name,
          Pool2dSpec{.input = builder.batch_of(layer.input), .kind = Pooling::global_average});
    },
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer&) {
          return walk.graph().pool(x, {.input = {}, .kind = Pooling::global_average});
        }};

}  // namespace flotilla
