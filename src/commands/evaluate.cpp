// SPDX-License-Identifier: Apache-2.0
#include "src/commands/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "kernels/error.hpp"
#include "mpi/topology.hpp"
#include "src/commands/load.hpp"
#include "src/observe/print.hpp"
#include "src/train/assembly.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/model_state.hpp"

namespace flotilla {

namespace {

LoadedDeck deck_for(const EvaluateArguments& arguments, const LoadedCheckpoint& checkpoint,
                    const mpi::Communicator& world) {
  if (!arguments.deck.empty()) return load_deck_everywhere(arguments.deck, arguments.overrides, world);
  LoadedDeck deck;
  agree(world, [&] {
    if (checkpoint.snapshot.state.deck.empty())
      throw UserError(cat(checkpoint.path,
                          " holds weights only: give a deck as well "
                          "(flotilla evaluate FILE DECK)"));
    deck = load_deck(
        {.path = checkpoint.path, .text = checkpoint.snapshot.state.deck, .overrides = arguments.overrides});
  });
  return deck;
}

/// The last layer's outputs of every sample, for --vectors.
class Outputs {
 public:
  void add(Network& network, std::int64_t valid) {
    const Tensor& logits = network.logits();
    const std::size_t before = values_.size();
    values_.resize(before + static_cast<std::size_t>(logits.shape().size()));
    network.device().download(logits.span(), std::span<float>(values_).subspan(before));
    values_.resize(before + static_cast<std::size_t>(valid * logits.shape()[1]));
  }

  /// Collective. The dataset /vectors (samples × outputs) in the order of the data, whatever the rank count.
  void write(const std::string& path, std::int64_t outputs, std::int64_t samples,
             const mpi::Communicator& world) {
    std::vector<float> all;
    for (int rank = 0; rank < world.size(); ++rank) {
      const ValidationShard shard = validation_shard(samples, world.size(), rank);
      std::vector<float> part((static_cast<std::size_t>((shard.end - shard.begin) * outputs)));
      if (rank == world.rank()) part = values_;
      world.broadcast(std::span<float>(part), rank);
      if (world.is_root()) all.insert(all.end(), part.begin(), part.end());
    }
    agree(world, [&] {
      if (world.is_root()) write_array(path, "vectors", {samples, outputs}, all);
    });
  }

 private:
  std::vector<float> values_;  ///< Of this rank's shard
};

}  // namespace

int evaluate_checkpoint(const EvaluateArguments& arguments, const mpi::Communicator& world,
                        FailureHandler& failure) {
  std::vector<std::string> warnings;
  const LoadedCheckpoint checkpoint = load_checkpoint_everywhere(arguments.checkpoint, world, warnings);
  const LoadedDeck deck = deck_for(arguments, checkpoint, world);
  const Config& config = deck.config;
  const std::vector<mpi::Place> places = mpi::find_topology(world);
  failure.set_step(checkpoint.snapshot.state.step);

  std::unique_ptr<Device> device;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Network> network;
  Storage parameters;
  Storage statistics;
  Storage sums;
  Model model;
  agree(world, [&] {
    if (world.is_root() && !arguments.vectors.empty()) check_output_file(arguments.vectors, checkpoint.path);
    device = make_device(config.device, places[static_cast<std::size_t>(world.rank())]);
    data = open_validation_data(config);
    if (!data)
      throw UserError(
          "the deck names no validation data: set data.validation (on the command line: key=value)");
    std::int64_t batch = config.validation.batch_size;
    if (batch == 0) batch = config.train.batch_size;
    if (batch == 0) batch = std::max<std::int64_t>(1, config.train.global_batch_size / world.size());
    network = make_network(*device, config,
                           {.sample = data->sample_shape(), .batch = batch, .purpose = Purpose::inference});
    parameters = device->allocate(static_cast<std::size_t>(network->layout().size()));
    statistics = device->allocate(static_cast<std::size_t>(network->statistics().layout().size()));
    model = {parameters.span(), statistics.span()};
    sums = device->allocate(ArenaLayout::alignment);
    if (world.is_root()) restore(checkpoint.snapshot, checkpoint.path, *network, model, nullptr);
  });
  network->bind({.parameters = model.parameters,
                 .gradients = {},
                 .statistics = model.statistics,
                 .step_statistics = {}});
  for (const DeviceSpan<float> values : {model.parameters, model.statistics})
    world.broadcast(std::span<float>(values.address(), values.size()));
  Outputs outputs;
  const Evaluation result =
      evaluate(*network, *data, world, loader_options(config.data), sums.span(), [&](std::int64_t valid) {
        if (!arguments.vectors.empty()) outputs.add(*network, valid);
      });
  if (!arguments.vectors.empty()) outputs.write(arguments.vectors, config.model.classes, data->size(), world);
  if (world.is_root()) {
    for (const std::string& warning : warnings) print_line(cat("warning: ", warning));
    const CheckpointState& state = checkpoint.snapshot.state;
    print_line(cat("checkpoint  ", checkpoint.path,
                   state.deck.empty() ? " (weights only)" : cat(" (step ", state.step, ")")));
    print_line(cat("data        ", data->description()));
    print_line(fmt::format("samples     {}", result.samples));
    print_line(fmt::format("loss        {:.5f}", result.loss));
    print_line(fmt::format("top-1       {:.5f}", result.accuracy_top1));
    print_line(fmt::format("top-5       {:.5f}", result.accuracy_top5));
  }
  if (world.is_root() && !arguments.vectors.empty()) print_line(cat("vectors     ", arguments.vectors));
  world.barrier();
  return exit_done;
}

}  // namespace flotilla
