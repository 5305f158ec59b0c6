// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_kinds.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/error.hpp"
#include "models/ctr_dnn.hpp"
#include "models/mlp.hpp"
#include "models/resnet.hpp"
#include "src/config/layer_texts.hpp"
#include "src/optim/parameter_patterns.hpp"

namespace flotilla {

namespace {

std::unique_ptr<Network> make_mlp_of(Device& device, const Config& config, const NetworkUse& use) {
  const ModelConfig& model = config.model;
  return make_mlp(device, {.input = {use.batch, use.sample.size()},
                           .widths = model.widths,
                           .classes = model.output_width(),
                           .activation = model.activation,
                           .initializer = initializer_of(model),
                           .label_smoothing = static_cast<float>(config.train.label_smoothing),
                           .loss = output_loss_of(model),
                           .accumulate = use.accumulate,
                           .dropout = static_cast<float>(model.dropout),
                           .dropout_seed = static_cast<std::uint64_t>(config.run.seed),
                           .purpose = use.purpose});
}

std::unique_ptr<Network> make_resnet_of(Device& device, const Config& config, const NetworkUse& use) {
  const ModelConfig& model = config.model;
  Shape input{use.batch};
  for (int axis = 0; axis < std::min(use.sample.rank(), Shape::max_rank - 1); ++axis)
    input.append(use.sample[axis]);
  return make_resnet(device, {.depth = model.depth,
                              .input = input,
                              .classes = model.output_width(),
                              .label_smoothing = static_cast<float>(config.train.label_smoothing),
                              .loss = output_loss_of(model),
                              .accumulate = use.accumulate,
                              .dropout = static_cast<float>(model.dropout),
                              .dropout_seed = static_cast<std::uint64_t>(config.run.seed),
                              .recompute = model.recompute,
                              .exchange = use.exchange,
                              .purpose = use.purpose});
}

std::unique_ptr<Network> make_ctr_dnn_of(Device& device, const Config& config, const NetworkUse& use) {
  const ModelConfig& model = config.model;
  if (use.slots == 0)
    throw UserError(
        "model.kind = \"ctr-dnn\" needs samples that name ids: use data.kind \"criteo\" or \"libsvm\"");
  return make_ctr_dnn(device, {.batch = use.batch,
                               .features = use.sample.size() + use.slots * model.embedding_width,
                               .widths = model.widths,
                               .activation = model.activation,
                               .label_smoothing = static_cast<float>(config.train.label_smoothing),
                               .accumulate = use.accumulate,
                               .dropout = static_cast<float>(model.dropout),
                               .dropout_seed = static_cast<std::uint64_t>(config.run.seed),
                               .purpose = use.purpose});
}

std::unique_ptr<Network> make_layers_of(Device& device, const Config& config, const NetworkUse& use) {
  return make_layer_network(device, plan_layers(layers_of(config.model), use.sample),
                            {.batch = use.batch,
                             .label_smoothing = static_cast<float>(config.train.label_smoothing),
                             .loss = output_loss_of(config.model),
                             .purpose = use.purpose,
                             .accumulate = use.accumulate,
                             .exchange = use.exchange,
                             .initializer = initializer_of(config.model),
                             .seed = static_cast<std::uint64_t>(config.run.seed)});
}

/// Every model there is, by name; all of these have their keys in config/keys_data.cpp.
std::map<std::string, NetworkMaker>& makers() {
  static std::map<std::string, NetworkMaker> all = {{"mlp", make_mlp_of},
                                                    {"resnet", make_resnet_of},
                                                    {"layers", make_layers_of},
                                                    {"ctr-dnn", make_ctr_dnn_of}};
  return all;
}

}  // namespace

std::optional<OutputLoss> output_loss_of(const ModelConfig& model) {
  using Kind = OutputLoss::Kind;
  const auto delta = static_cast<float>(model.huber_delta);
  switch (model.loss) {
    case ModelLoss::softmax: break;
    case ModelLoss::mse: return OutputLoss{.kind = Kind::mse};
    case ModelLoss::mae: return OutputLoss{.kind = Kind::mae};
    case ModelLoss::huber: return OutputLoss{.kind = Kind::huber, .delta = delta};
    case ModelLoss::binary: return OutputLoss{.kind = Kind::binary};
  }
  return {};
}

Initializer initializer_of(const ModelConfig& model) {
  using Kind = Initializer::Kind;
  const auto kind = [&] {
    switch (model.initializer) {
      case InitialWeights::xavier_uniform: return Kind::xavier_uniform;
      case InitialWeights::xavier_normal: return Kind::xavier_normal;
      case InitialWeights::he_uniform: return Kind::he_uniform;
      case InitialWeights::he_normal: return Kind::he_normal;
      case InitialWeights::uniform: return Kind::uniform;
      case InitialWeights::normal: break;
    }
    return Kind::normal;
  };
  return {.kind = kind(), .scale = model.initializer_scale};
}

void add_model(ModelKind kind) {
  config::add_model_kind(kind.name, kind.keys);
  makers().emplace(std::move(kind.name), std::move(kind.make));
}

std::unique_ptr<Network> make_network(Device& device, const Config& config, const NetworkUse& use) {
  const auto maker = makers().find(config.model.kind);
  require(maker != makers().end(), "no model \"", config.model.kind, "\"");
  std::unique_ptr<Network> network = maker->second(device, config, use);
  const Shape wanted{use.batch, config.model.output_width()};
  require(network != nullptr && !network->layers().empty(), "the model \"", config.model.kind,
          "\" made no layers");
  const Shape& made = network->layers().back()->output_shape();
  require(made == wanted && network->batch() == use.batch, "the model \"", config.model.kind,
          "\" makes outputs ", made.text(), " of a batch of ", network->batch(), ", not ", wanted.text());
  require(network->output_loss() == output_loss_of(config.model), "the model \"", config.model.kind,
          "\" was not made with the loss of the deck (NetworkSpec::loss = output_loss_of(config.model))");
  require(network->memory().purpose() == use.purpose, "the model \"", config.model.kind,
          "\" was not made for the purpose that was asked for (NetworkUse::purpose)");
  if (use.purpose == Purpose::inference) return network;
  const ArenaLayout& statistics = network->statistics().layout();
  check_patterns(config, network->layout(), statistics);
  if (!config.optimizer.frozen.empty())
    network->freeze(frozen_slices(config.optimizer, network->layout()), config.model.has_embeddings());
  network->fix_statistics(fixed_slices(config.model, statistics));
  return network;
}

}  // namespace flotilla
