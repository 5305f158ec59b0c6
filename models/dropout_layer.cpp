// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "models/layer_list.hpp"
#include "models/layers.hpp"

namespace flotilla {

DropoutLayer::DropoutLayer(const Building& network, std::string name, const DropoutSpec& spec)
    : Layer(network, std::move(name), spec.input),
      rows_{spec.input[0], spec.input.size() / spec.input[0]},
      plan_(network.device.layers().dropout(
          {.input = rows_, .probability = spec.probability, .seed = spec.seed, .layer = spec.layer})) {
  if (network.memory.purpose() == Purpose::training) network.memory.keep(spec.input, y_);
}

void DropoutLayer::mask(const Tensor& x) {
  Tensor y = plain_view(y_, rows_);
  plan_->forward(draw_, plain_view(x, rows_), y);
}

const Tensor& DropoutLayer::forward(const Tensor& x, const PassInfo& info) {
  if (info.pass == Pass::inference) return x;
  draw_ = info.draw;
  mask(x);
  return y_;
}

OutputGradient DropoutLayer::backward(const Tensor&, OutputGradient dy) {
  Tensor rows = plain_view(single(dy), rows_);
  plan_->backward(draw_, rows, rows);
  return dy;
}

void DropoutLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  operations.forward.push_back({name() + " forward", "dropout", 0.0, [this, &x] { mask(x); }});
  operations.backward.push_back({name() + " backward", "dropout", 0.0, [this] { mask(y_); }});
}

const LayerKind dropout_kind = {
    .word = "dropout",
    .usage = "dropout SHARE",
    .read = [](ArgumentReader& reader, LayerArguments& layer) { layer.probability = reader.share(); },
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      return std::make_unique<DropoutLayer>(
          builder.building(layer), layer.name,
          DropoutSpec{.input = builder.batch_of(layer.input),
                      .probability = static_cast<float>(layer.arguments.probability),
                      .seed = builder.use().seed,
                      .layer = builder.next_dropout()});
    },
    .graph = [](GraphWalk&, const std::string& x, const PlannedLayer&) { return x; }};

}  // namespace flotilla
