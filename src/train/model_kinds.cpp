// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_kinds.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"
#include "models/listed_models.hpp"
#include "src/config/layer_texts.hpp"
#include "src/optim/parameter_patterns.hpp"

namespace flotilla {

namespace {

LayerList mlp_of(const ModelConfig& model, Purpose /*purpose*/) {
  return mlp_layers({.widths = model.widths,
                     .outputs = model.output_width(),
                     .activation = model.activation,
                     .dropout = model.dropout});
}

LayerList resnet_of(const ModelConfig& model, Purpose purpose) {
  return resnet_layers({.depth = model.depth,
                        .outputs = model.output_width(),
                        .dropout = model.dropout,
                        .recompute = model.recompute,
                        .purpose = purpose});
}

LayerList list_of(const ModelConfig& model, Purpose /*purpose*/) {
  return layers_of(model);
}

/// A value of model.kind whose network is a list of layers; its keys are in config/keys_data.cpp.
struct ListedKind {
  std::string_view name;
  LayerList (*layers)(const ModelConfig& model, Purpose purpose);
  bool takes_rows;  ///< Samples are rows, whatever their shape
};
constexpr std::array listed_kinds = {ListedKind{"mlp", mlp_of, true}, ListedKind{"resnet", resnet_of, false},
                                     ListedKind{"layers", list_of, false},
                                     ListedKind{"ctr-dnn", mlp_of, true}};

/// Null: a kind of a program's own.
const ListedKind* find_listed(const std::string& kind) {
  const auto found = std::ranges::find(listed_kinds, kind, &ListedKind::name);
  return found == listed_kinds.end() ? nullptr : &*found;
}

std::unique_ptr<Network> make_listed(Device& device, const Config& config, const NetworkUse& use) {
  const ModelConfig& model = config.model;
  const Shape input = network_input(model, use.sample, use.slots);
  const std::vector<double>& weights = config.train.class_weights;
  if (!weights.empty() && std::ssize(weights) != model.classes)
    throw UserError(cat("train.class_weights holds a weight for each of the ", model.classes,
                        " classes, got ", weights.size()));
  return make_layer_network(device, plan_model(model, input, use.purpose),
                            {.batch = use.batch,
                             .label_smoothing = static_cast<float>(config.train.label_smoothing),
                             .class_weights = {weights.begin(), weights.end()},
                             .loss = output_loss_of(model),
                             .purpose = use.purpose,
                             .accumulate = use.accumulate,
                             .input_gradient = model.has_embeddings(),
                             .exchange = use.exchange,
                             .initializer = initializer_of(model),
                             .seed = static_cast<std::uint64_t>(config.run.seed)});
}

/// The networks of a program's own models, by name.
std::map<std::string, NetworkMaker>& own_makers() {
  static std::map<std::string, NetworkMaker> all;
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
  if (model.has_embeddings()) return {.kind = Kind::lecun_normal};
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
  own_makers().emplace(std::move(kind.name), std::move(kind.make));
}

bool is_listed(const ModelConfig& model) {
  return find_listed(model.kind) != nullptr;
}

Shape network_input(const ModelConfig& model, const Shape& sample, std::int64_t slots) {
  if (!model.has_embeddings()) return sample;
  if (slots == 0)
    throw UserError(
        "model.kind = \"ctr-dnn\" needs samples that name ids: use data.kind \"criteo\" or \"libsvm\"");
  return {sample.size() + slots * model.embedding_width};
}

std::vector<PlannedLayer> plan_model(const ModelConfig& model, const Shape& input, Purpose purpose) {
  const ListedKind* kind = find_listed(model.kind);
  require(kind != nullptr, "the model \"", model.kind, "\" is no list of layers");
  if (model.kind == "resnet" && (input.rank() != 3 || input[0] != 3))
    throw UserError(cat("a ResNet needs images of three channels, got samples of ", input.text()));
  return plan_layers(kind->layers(model, purpose), kind->takes_rows ? Shape{input.size()} : input);
}

std::unique_ptr<Network> make_network(Device& device, const Config& config, const NetworkUse& use) {
  const auto own = own_makers().find(config.model.kind);
  require(is_listed(config.model) || own != own_makers().end(), "no model \"", config.model.kind, "\"");
  std::unique_ptr<Network> network =
      is_listed(config.model) ? make_listed(device, config, use) : own->second(device, config, use);
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
