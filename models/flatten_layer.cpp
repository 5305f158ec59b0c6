// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "models/layer_list.hpp"

namespace flotilla {

namespace {

/// Images (N,C,H,W) as rows (N, C·H·W), whose values stay where they lie: the linear layer behind it takes
/// them in that order, order().
class FlattenLayer : public Layer {
 public:
  FlattenLayer(const Building& network, std::string name, const Shape& input);
  const Tensor& forward(const Tensor& x, const PassInfo& info) override;
  OutputGradient backward(const Tensor& x, OutputGradient dy) override;
  void time_alone(const Tensor&, TimedOperations&) override {}

  /// The place in plain order (C,H,W) of each value of a row.
  const std::vector<std::int64_t>& order() const { return order_; }

 private:
  ActivationMemory& memory_;
  std::vector<std::int64_t> order_;
  Tensor y_;
  ActivationMemory::Gradient dx_;
};

/// The place in plain order of each value of an image, found by uploading the digits of all places: every
/// precision holds integers up to 128 exactly.
std::vector<std::int64_t> order_of_images(Device& device, const Shape& shape) {
  constexpr std::int64_t base = 128;
  const auto values = static_cast<std::size_t>(shape.size());
  Tensor image = device.images().tensor(shape);
  std::vector<float> digits(values);
  std::vector<std::int64_t> order(values / static_cast<std::size_t>(shape[0]));
  for (std::int64_t unit = 1; unit < shape.size(); unit *= base) {
    for (std::size_t i = 0; i < values; ++i)
      digits[i] = static_cast<float>(static_cast<std::int64_t>(i) / unit % base);
    device.images().upload(digits, image);
    device.tensors().download(plain_view(image, {shape[0], shape.size() / shape[0]}), digits);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] += static_cast<std::int64_t>(digits[i]) * unit;
  }
  for (const std::int64_t place : order)
    require(place < static_cast<std::int64_t>(order.size()), "images ", shape.text(),
            " do not lie one after another");
  return order;
}

FlattenLayer::FlattenLayer(const Building& network, std::string name, const Shape& input)
    : Layer(network, std::move(name), {input[0], input.size() / input[0]}),
      memory_(network.memory),
      order_(order_of_images(network.device, input)) {
  memory_.plan_gradient(input, dx_);
}

const Tensor& FlattenLayer::forward(const Tensor& x, const PassInfo&) {
  y_ = plain_view(x, output_shape());
  return y_;
}

OutputGradient FlattenLayer::backward(const Tensor&, OutputGradient dy) {
  return {.first = &memory_.same_slot(single(dy), dx_)};
}

}  // namespace

const LayerKind flatten_kind = {
    .word = "flatten",
    .usage = "flatten",
    .takes_batch = true,
    .plan = [](LayerSite& site, PlannedLayer&) { site.flatten(); },
    // Images of the data are staged as rows.
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      if (layer.input.rank() < 3 || builder.is_first()) return nullptr;
      auto made =
          std::make_unique<FlattenLayer>(builder.building(layer), layer.name, builder.batch_of(layer.input));
      builder.order() = made->order();
      return made;
    },
    .graph = [](GraphWalk& walk, const std::string& x,
                const PlannedLayer& layer) { return layer.input.rank() == 3 ? walk.graph().flatten(x) : x; }};

}  // namespace flotilla
