// SPDX-License-Identifier: Apache-2.0
// A program with a model of one's own: flotilla with one more model.kind. All its commands and keys work with
// it.
#include <cstdint>
#include <memory>
#include <string>

#include "residual_layer.hpp"
#include "src/run.hpp"

namespace {

/// The network of a deck: layers one after another. The softmax loss behind them is the network's own.
std::unique_ptr<flotilla::Network> make_residual_mlp(flotilla::Device& device, const flotilla::Config& config,
                                                     const flotilla::NetworkUse& use) {
  // The model's own keys, declared in main(); what holds for all models stands in config.
  const auto width = flotilla::config::own_value<std::int64_t>(config, "width");
  const auto blocks = flotilla::config::own_value<std::int64_t>(config, "blocks");
  const flotilla::Initializer xavier;

  auto network = std::make_unique<flotilla::Network>(
      device, flotilla::NetworkSpec{.input = {use.batch, use.sample.size()},
                                    .classes = config.model.classes,
                                    .label_smoothing = static_cast<float>(config.train.label_smoothing),
                                    .purpose = use.purpose});
  // Every layer with weights must know whether gradients are added up over micro-steps: use.accumulate.
  flotilla::LinearSpec spec{.batch = use.batch,
                            .in = use.sample.size(),
                            .out = width,
                            .activation = flotilla::Activation::relu,
                            .accumulate = use.accumulate};
  const bool is_first = true;  // the gradient of the images is not needed
  network->append(std::make_unique<flotilla::LinearLayer>(network->building(), "in", spec, xavier, is_first));

  spec.in = width;
  for (std::int64_t block = 1; block <= blocks; ++block)
    network->append(
        std::make_unique<example::ResidualLayer>(network->building(), "block" + std::to_string(block), spec));

  spec.out = config.model.classes;
  spec.activation = flotilla::Activation::identity;
  network->append(
      std::make_unique<flotilla::LinearLayer>(network->building(), "out", spec, xavier, !is_first));
  network->finish();
  return network;
}

}  // namespace

int main(int argc, char** argv) {
  // In decks: model.kind = "residual-mlp", and the table [model.residual-mlp] with the keys below. Wrong
  // names and values are refused with their place, as for every other key; a run resumes only with the values
  // it began with.
  return flotilla::run(argc, argv,
                       {{.name = "residual-mlp",
                         .keys = {{.name = "width",
                                   .value = 64,
                                   .help = "Values between the blocks",
                                   .rule = {.low = 1, .high = 65536}},
                                  {.name = "blocks",
                                   .value = 2,
                                   .help = "Blocks of two layers with a way past them",
                                   .rule = {.low = 0, .high = 1000}}},
                         .make = make_residual_mlp}});
}
