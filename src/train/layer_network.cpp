// SPDX-License-Identifier: Apache-2.0
#include "src/train/layer_network.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "models/activation_layer.hpp"
#include "models/conv_layer.hpp"
#include "models/dropout_layer.hpp"
#include "models/flatten_layer.hpp"
#include "models/layer_norm_layer.hpp"
#include "models/linear_layer.hpp"
#include "models/norm_layer.hpp"
#include "models/pool_layer.hpp"
#include "models/residual_layer.hpp"
#include "src/train/layer_plan.hpp"

namespace flotilla {

namespace {

using Kind = LayerText::Kind;

/// Makes the layers of a plan one after another. Functions that have a fused form are made with the layer
/// before them: an activation with linear, ReLU with batch_norm and with the end of a residual.
class Builder {
 public:
  Builder(Network& network, const std::vector<PlannedLayer>& plan, const Config& config,
          const NetworkUse& use)
      : network_(network), building_(network.building()), plan_(plan), config_(config), use_(use) {}

  void build() {
    for (at_ = 0; at_ < plan_.size(); ++at_) {
      const PlannedLayer& next = plan_[at_];
      if (next.layer.kind == Kind::residual) {
        residual_ = true;
      } else if (next.layer.kind == Kind::end) {
        append(end_of_residual(next));
      } else if (auto layer = make(next)) {
        append(std::move(layer));
      }
    }
    network_.finish();
  }

 private:
  std::unique_ptr<Layer> make(const PlannedLayer& next) {
    const LayerText& text = next.layer;
    const Shape input = batch_of(next.input);
    switch (text.kind) {
      case Kind::conv: return std::make_unique<ConvLayer>(building_, next.name, conv_of(next), initializer());
      case Kind::max_pool:
      case Kind::average_pool:
        return std::make_unique<PoolLayer>(
            building_, next.name,
            Pool2dSpec{
                .input = input,
                .kind = text.kind == Kind::max_pool ? Pooling::max : Pooling::average_including_padding,
                .kernel = text.kernel,
                .stride = text.stride,
                .padding = text.padding});
      case Kind::global_average_pool:
        return std::make_unique<PoolLayer>(building_, next.name,
                                           Pool2dSpec{.input = input, .kind = Pooling::global_average});
      case Kind::batch_norm: return norm(next.name, input, takes(Activation::relu));
      case Kind::layer_norm:
        return std::make_unique<LayerNormLayer>(
            building_, next.name,
            LayerNormSpec{.rows = use_.batch, .columns = next.input[0], .accumulate = use_.accumulate});
      case Kind::activation:
        return std::make_unique<ActivationLayer>(
            building_, next.name, ElementwiseSpec{.input = input, .function = text.activation});
      case Kind::dropout:
        return std::make_unique<DropoutLayer>(
            building_, next.name,
            DropoutSpec{.input = input,
                        .probability = static_cast<float>(text.probability),
                        .seed = static_cast<std::uint64_t>(config_.run.seed),
                        .layer = dropouts_++});
      case Kind::flatten: flatten(next); return {};
      case Kind::linear: return linear(next);
      case Kind::residual:
      case Kind::end: break;
    }
    throw InternalError("residuals are made of the layers in them");
  }

  Conv2dSpec conv_of(const PlannedLayer& next) const {
    return {.input = batch_of(next.input),
            .out_channels = next.layer.outputs,
            .kernel = next.layer.kernel,
            .stride = next.layer.stride,
            .padding = next.layer.padding,
            .bias = next.layer.bias,
            .accumulate = use_.accumulate,
            .input_gradient = !is_first()};
  }

  std::unique_ptr<Layer> norm(const std::string& name, const Shape& input, bool relu) const {
    const std::int64_t workers = use_.exchange == nullptr ? 1 : use_.exchange->workers();
    if (use_.purpose == Purpose::training && input.size() / input[1] * workers < 2)
      throw UserError(cat("the batch norm of layer ", name,
                          " gets a single value per channel, of images or rows ", input.text(),
                          " (batch first): give a larger batch"));
    return std::make_unique<NormLayer>(
        building_, name,
        NormLayer::Spec{
            .input = input, .relu = relu, .accumulate = use_.accumulate, .exchange = use_.exchange});
  }

  /// Images in the network are flattened by a layer; those of the data are staged as rows.
  void flatten(const PlannedLayer& next) {
    if (next.input.rank() < 3 || is_first()) return;
    auto layer = std::make_unique<FlattenLayer>(building_, next.name, batch_of(next.input));
    order_ = layer->order();
    append(std::move(layer));
  }

  std::unique_ptr<Layer> linear(const PlannedLayer& next) {
    flatten(next);
    const bool first = is_first();
    const LinearSpec spec{.batch = use_.batch,
                          .in = next.input.size(),
                          .out = next.layer.outputs,
                          .activation = fused_activation(),
                          .accumulate = use_.accumulate};
    return std::make_unique<LinearLayer>(building_, next.name, spec, initializer(), first,
                                         std::exchange(order_, {}));
  }

  std::unique_ptr<Layer> end_of_residual(const PlannedLayer& next) {
    residual_ = false;
    ResidualLayer::Parts parts{.body = std::move(body_), .shortcut = {}};
    body_.clear();
    const std::string name = next.name + ".shortcut.";
    if (next.shortcut_stride > 0) {
      const Conv2dSpec conv{.input = batch_of(next.input),
                            .out_channels = next.output[0],
                            .stride = next.shortcut_stride,
                            .accumulate = use_.accumulate};
      parts.shortcut.push_back(std::make_unique<ConvLayer>(building_, name + "0", conv, initializer()));
      parts.shortcut.push_back(norm(name + "1", batch_of(next.output), false));
    }
    parts.relu = takes(Activation::relu);
    return std::make_unique<ResidualLayer>(building_, next.name, std::move(parts));
  }

  /// Whether the next layer is this activation, which then belongs to the layer at hand.
  bool takes(Activation activation) {
    if (at_ + 1 == plan_.size() || plan_[at_ + 1].layer.activation != activation) return false;
    ++at_;
    return true;
  }

  Activation fused_activation() {
    for (const Activation each : activations_of_value)
      if (each != Activation::identity && takes(each)) return each;
    return Activation::identity;
  }

  void append(std::unique_ptr<Layer> layer) {
    if (residual_) {
      body_.push_back(std::move(layer));
    } else {
      network_.append(std::move(layer));
    }
  }

  bool is_first() const { return network_.layers().empty() && !residual_; }

  Shape batch_of(const Shape& sample) const {
    Shape batch{use_.batch};
    for (int axis = 0; axis < sample.rank(); ++axis) batch.append(sample[axis]);
    return batch;
  }

  Initializer initializer() const { return initializer_of(config_.model); }

  Network& network_;
  Building building_;
  const std::vector<PlannedLayer>& plan_;
  const Config& config_;
  const NetworkUse& use_;
  std::size_t at_ = 0;
  bool residual_ = false;                     ///< The next layer is in one
  std::vector<std::unique_ptr<Layer>> body_;  ///< Of that one
  std::vector<std::int64_t> order_;           ///< Of the values of a flattened image; empty: plain
  std::uint32_t dropouts_ = 0;
};

}  // namespace

std::unique_ptr<Network> make_layer_network(Device& device, const Config& config, const NetworkUse& use) {
  const std::vector<PlannedLayer> plan = plan_layers(config.model, use.sample);
  const Shape& sample = plan.front().input;
  const bool as_image = plan.front().layer.kind == Kind::conv;
  const Shape input =
      as_image ? Shape{use.batch, sample[0], sample[1], sample[2]} : Shape{use.batch, sample.size()};
  auto network = std::make_unique<Network>(
      device, NetworkSpec{.input = input,
                          .classes = config.model.output_width(),
                          .label_smoothing = static_cast<float>(config.train.label_smoothing),
                          .loss = output_loss_of(config.model),
                          .purpose = use.purpose});
  Builder(*network, plan, config, use).build();
  return network;
}

}  // namespace flotilla
