// SPDX-License-Identifier: Apache-2.0
#include "models/flatten_layer.hpp"

#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

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

}  // namespace

FlattenLayer::FlattenLayer(const Building& network, std::string name, const Shape& input)
    : name_(std::move(name)),
      memory_(network.memory),
      offset_(network.parameters.layout().size()),
      shape_{input[0], input.size() / input[0]},
      order_(order_of_images(network.device, input)) {
  memory_.plan_gradient(input, dx_);
}

const Tensor& FlattenLayer::forward(const Tensor& x, const PassInfo&) {
  y_ = plain_view(x, shape_);
  return y_;
}

OutputGradient FlattenLayer::backward(const Tensor&, OutputGradient dy) {
  require(dy.more == nullptr, name_, " cannot add two gradients");
  return {.first = &memory_.same_slot(*dy.first, dx_)};
}

}  // namespace flotilla
