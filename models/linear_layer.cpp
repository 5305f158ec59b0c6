// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer_list.hpp"
#include "models/layers.hpp"

namespace flotilla {

namespace {

/// Images (N,C,H,W) as rows (N, C·H·W), whose values stay where they lie: the linear layer after it takes
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
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer& layer) {
          if (layer.input.rank() < 3) return x;
          return walk.graph().node("Flatten", {x}, {{"axis", std::int64_t{1}}});
        }};

namespace {

/// Calls body(place in plain order, place in storage order) for each value of a weight of rows that lie in
/// `order`.
template <class Body>
void for_each_place(const std::vector<std::int64_t>& order, std::size_t size, const Body& body) {
  for (std::size_t row = 0; row < size; row += order.size())
    for (std::size_t i = 0; i < order.size(); ++i) body(row + static_cast<std::size_t>(order[i]), row + i);
}

}  // namespace

LinearLayer::LinearLayer(const Building& network, std::string name, const LinearSpec& spec,
                         const Initializer& initializer, bool first, std::vector<std::int64_t> order)
    : Layer(network, std::move(name), {spec.batch, spec.out}),
      memory_(network.memory),
      plan_(network.device.layers().linear(spec)),
      first_(first) {
  const Linear* plan = plan_.get();
  const auto from_plain = [plan, order](std::span<const float> plain, std::span<float> stored) {
    if (order.empty()) return plan->weight_from_plain(plain, stored);
    std::vector<float> turned(plain.size());
    for_each_place(order, turned.size(),
                   [&](std::size_t there, std::size_t here) { turned[here] = plain[there]; });
    plan->weight_from_plain(turned, stored);
  };
  const auto to_plain = [plan, order](std::span<const float> stored, std::span<float> plain) {
    if (order.empty()) return plan->weight_to_plain(stored, plain);
    std::vector<float> turned(plain.size());
    plan->weight_to_plain(stored, turned);
    for_each_place(order, turned.size(),
                   [&](std::size_t there, std::size_t here) { plain[there] = turned[here]; });
  };
  weight_slice_ = network.parameters.add({.name = this->name() + ".weight",
                                          .shape = {spec.out, spec.in},
                                          .kind = ParameterKind::weight,
                                          .initializer = initializer,
                                          .fan_in = spec.in,
                                          .fan_out = spec.out,
                                          .stored_size = plan->weight_size(),
                                          .from_plain = from_plain,
                                          .to_plain = to_plain});
  bias_slice_ = network.parameters.add({.name = this->name() + ".bias",
                                        .shape = {spec.out},
                                        .kind = ParameterKind::bias,
                                        .initializer = {.kind = Initializer::Kind::zeros}});
  memory_.keep(output_shape(), y_);
  memory_.plan_gradient(output_shape(), dy_);
  if (!first_) memory_.plan_gradient({spec.batch, spec.in}, dx_);
}

void LinearLayer::bind(const Arenas& arenas) {
  weights_ = weights_of(arenas, weight_slice_, &bias_slice_);
  gradients_ = {part_of(arenas.gradients, weight_slice_), part_of(arenas.gradients, bias_slice_)};
}

const Tensor& LinearLayer::forward(const Tensor& x, const PassInfo&) {
  const trace::Span span("linear forward");
  plan_->forward(x, weights_, y_);
  return y_;
}

OutputGradient LinearLayer::backward(const Tensor& x, OutputGradient dy) {
  const trace::Span span("linear backward");
  Tensor* dx = first_ ? nullptr : &memory_.take(dx_);
  plan_->backward(x, y_, weights_, single(dy), gradients_, dx);
  memory_.give_back(*dy.first);
  return {.first = dx};
}

void LinearLayer::time_alone(const Tensor& x, TimedOperations& operations) {
  const auto flop = static_cast<double>(plan_->flops());
  operations.forward.push_back(
      {name() + " forward", "linear forward", flop, [this, &x] { plan_->forward(x, weights_, y_); }});
  operations.backward.push_back(
      {name() + " backward", "linear backward", first_ ? flop : 2.0 * flop, [this, &x] {
         plan_->backward(x, y_, weights_, ActivationMemory::view(dy_, 0), gradients_,
                         first_ ? nullptr : &ActivationMemory::view(dx_, 1));
       }});
}

const LayerKind linear_kind = {
    .word = "linear",
    .usage = "linear OUTPUTS",
    .takes_batch = true,
    .gives_logits = true,
    .read = [](ArgumentReader& reader, LayerArguments& layer) { layer.outputs = reader.count(); },
    .plan =
        [](LayerSite& site, PlannedLayer& layer) {
          site.flatten();
          layer.parameters = (site.shape[0] + 1) * layer.arguments.outputs;
          layer.multiplications = site.shape[0] * layer.arguments.outputs;
          site.shape = {layer.arguments.outputs};
          site.flattened = false;
        },
    .make = [](LayerBuilder& builder, const PlannedLayer& layer) -> std::unique_ptr<Layer> {
      if (auto flat = flatten_kind.make(builder, layer)) builder.append(std::move(flat));
      Activation activation = Activation::identity;
      for (const Activation each : activations_of_value)
        if (activation == Activation::identity && each != activation && builder.plan().take_if(each))
          activation = each;
      const LinearSpec spec{.batch = builder.use().batch,
                            .in = layer.input.size(),
                            .out = layer.arguments.outputs,
                            .activation = activation,
                            .accumulate = builder.use().accumulate};
      return std::make_unique<LinearLayer>(builder.building(layer), layer.name, spec,
                                           builder.initializer(layer), builder.needs_no_input_gradient(),
                                           std::exchange(builder.order(), {}));
    },
    .graph =
        [](GraphWalk& walk, const std::string& x, const PlannedLayer& layer) {
          const std::string rows = flatten_kind.graph(walk, x, layer);
          const auto inputs = walk.graph().weighted(rows, layer.name, true, walk.take_batch_norm());
          return walk.graph().node("Gemm", inputs, {{"transB", std::int64_t{1}}}, layer.name);
        }};

}  // namespace flotilla
