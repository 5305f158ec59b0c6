// SPDX-License-Identifier: Apache-2.0
#include "src/commands/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "kernels/error.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/merged_rows.hpp"
#include "src/commands/sample_outputs.hpp"
#include "src/commands/start_up.hpp"
#include "src/data/data_file.hpp"
#include "src/job/devices.hpp"
#include "src/job/same_data.hpp"
#include "src/job/shared_deck.hpp"
#include "src/observe/print.hpp"
#include "src/parameter_server/server/row_parts.hpp"
#include "src/parameter_server/worker/embedding_pool.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/find_checkpoint.hpp"
#include "src/train/inflated_copies.hpp"
#include "src/train/model_kinds.hpp"
#include "src/train/model_state.hpp"
#include "src/train/run_data.hpp"

namespace flotilla {

namespace {

LoadedDeck deck_for(const EvaluateArguments& arguments, const LoadedCheckpoint& checkpoint,
                    const mpi::Communicator& world) {
  if (!arguments.deck.empty()) return load_deck_everywhere(arguments.deck, arguments.overrides, world);
  LoadedDeck deck;
  agree(world, [&] {
    if (checkpoint.state.deck.empty())
      throw UserError(cat(checkpoint.path,
                          " holds weights only: give a deck as well "
                          "(flotilla evaluate FILE DECK)"));
    deck =
        load_deck({.path = checkpoint.path, .text = checkpoint.state.deck, .overrides = arguments.overrides});
  });
  return deck;
}

/// The embeddings of a checkpoint, all of them on this rank: there are no servers in an evaluation.
class LocalEmbeddings {
 public:
  LocalEmbeddings(const Config& config, const LoadedCheckpoint& checkpoint, const Dataset& data,
                  std::int64_t batch)
      : rows_(config),
        pool_(bags_of(config.model, data, batch), config.model.embeddings == EmbeddingTables::per_slot) {
    const auto files = open_rows(checkpoint.path, checkpoint.state);
    if (files.empty()) throw UserError(cat(checkpoint.path, " has no rows of embeddings"));
    for (const auto& file : files) load_rows(rows_, *file, 0, 1);
  }
  std::span<float> features(const Batch& batch) {
    const auto keys = pool_.find(batch);
    rows_.table(0).peek(keys, pool_.rows());
    return pool_.forward(batch);
  }

 private:
  RowStore rows_;
  EmbeddingPool pool_;
};

/// The arguments of an evaluation.
struct Task {
  const EvaluateArguments& arguments;
  const LoadedCheckpoint& checkpoint;
  const Config& config;
  const std::vector<std::string>& warnings;
};

/// Collective.
int evaluate_watched(const Task& task, const mpi::Communicator& world, const std::vector<mpi::Place>& places,
                     mpi::Watchdog& watchdog) {
  const auto& [arguments, checkpoint, config, warnings] = task;
  const mpi::GpuBinding gpus = find_gpus(config.device, world, places);
  const Precision precision = find_precision(config.device, world, places);
  agree(world, places, [&] { check_data_files(config, true); });
  const InflatedCopies copies(config.data, true, world, world.split_by_host(), places, watchdog);
  std::unique_ptr<Device> device;
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Network> network;
  Storage parameters;
  Storage statistics;
  Storage sums;
  Model model;
  std::optional<LocalEmbeddings> embeddings;
  agree(world, [&] {
    mpi::CpuProgressScope working(watchdog, "preparing the device");
    if (world.is_root() && !arguments.vectors.empty()) check_output_file(arguments.vectors, checkpoint.path);
    device = make_device(config.device, precision, places[static_cast<std::size_t>(world.rank())],
                         gpus.ordinal(world.rank()), config.run.reproducible);
    working.next("opening data.validation");
    data = open_validation_data(config, copies.handles);
    if (!data)
      throw UserError(
          "the deck names no validation data: set data.validation (on the command line: key=value)");
    std::int64_t batch = config.validation.batch_size;
    working.next("making the network");
    if (batch == 0) batch = config.train.batch_size;
    if (batch == 0) batch = std::max<std::int64_t>(1, config.train.global_batch_size / world.size());
    network = make_network(*device, config,
                           {.sample = data->sample_shape(),
                            .slots = data->slots(),
                            .batch = batch,
                            .purpose = Purpose::inference});
    parameters = device->memory().allocate(static_cast<std::size_t>(network->layout().size()));
    statistics = device->memory().allocate(static_cast<std::size_t>(network->statistics().layout().size()));
    model = {parameters.span(), statistics.span()};
    sums = device->memory().allocate(ArenaLayout::alignment);
    working.next("reading the checkpoint");
    if (config.model.has_embeddings()) embeddings.emplace(config, checkpoint, *data, batch);
    if (world.is_root()) {
      CheckpointFile file(checkpoint.path, CheckpointFile::Content::weights);
      restore(file, checkpoint.path, *network, state_arrays(model, nullptr));
    }
  });
  std::int64_t batches = 0;
  watchdog.beat("comparing the data of the ranks", 0);
  check_same_data(world, places, data->size(), "data.validation");
  network->bind({.parameters = model.parameters,
                 .gradients = {},
                 .statistics = model.statistics,
                 .step_statistics = {}});
  broadcast(*device, world, state_arrays(model, nullptr));
  SampleOutputs outputs;
  ClassTable classes(config.model.classes);
  const bool needs_rows = !arguments.vectors.empty() || arguments.per_class;
  std::vector<float> rows(static_cast<std::size_t>(network->batch() * config.model.classes));
  const auto on_batch = [&](const Batch& batch) {
    watchdog.beat("evaluating", checkpoint.state.step, batches++);
    if (!needs_rows) return;
    device->tensors().download(network->logits(), rows);
    const auto valid = static_cast<std::size_t>(batch.valid);
    const std::span<const float> given =
        std::span(rows).first(valid * static_cast<std::size_t>(config.model.classes));
    if (!arguments.vectors.empty()) outputs.add(given);
    if (arguments.per_class) classes.add(given, batch.labels.first(valid));
  };
  NetworkInputs inputs;
  if (embeddings) inputs = [&](const Batch& batch) { return embeddings->features(batch); };
  const Evaluation result = evaluate(*network, *data, world, loader_options(config.data), sums.span(), 1,
                                     predicts_clicks(config.model), on_batch, inputs);
  agree(world, [&] {
    if (std::isfinite(result.loss)) return;
    throw UserError(cat(checkpoint.path, ": its loss on ", data->description(), " is ",
                        std::isnan(result.loss) ? "NaN" : "infinite",
                        ", first in the batch that begins at sample ", result.not_finite,
                        " (counted from 0); the model diverged or is not made for these data: "
                        "`flotilla inspect ",
                        checkpoint.path, "` shows the range of each tensor"));
  });
  watchdog.beat("collecting the results", checkpoint.state.step);
  if (!arguments.vectors.empty()) outputs.write(arguments.vectors, config.model.classes, data->size(), world);
  const std::vector<std::string> table =
      arguments.per_class ? classes.lines(world) : std::vector<std::string>();
  if (world.is_root()) {
    for (const std::string& warning : warnings) print_line(cat("warning: ", warning));
    const CheckpointState& state = checkpoint.state;
    print_line(cat("checkpoint  ", checkpoint.path,
                   state.deck.empty() ? " (weights only)" : cat(" (step ", state.step, ")")));
    print_line(cat("data        ", data->description()));
    print_line(fmt::format("samples     {}", result.samples));
    print_line(fmt::format("loss        {:.5f}", result.loss));
    print_line(fmt::format("top-1       {:.5f}", result.accuracy_top1));
    print_line(fmt::format("top-5       {:.5f}", result.accuracy_top5));
    if (result.clicks) {
      const ClickMetrics& clicks = *result.clicks;
      print_line(fmt::format("auc         {:.5f}, ± {:.5f} by its bins", clicks.auc, clicks.auc_bound));
      print_line(fmt::format("pr-auc      {:.5f}", clicks.pr_auc));
      print_line(fmt::format("log loss    {:.5f}", clicks.log_loss));
      print_line(fmt::format("calibration {:.5f}", clicks.calibration));
    }
    for (const std::string& line : table) print_line(line);
  }
  if (world.is_root() && !arguments.vectors.empty()) print_line(cat("vectors     ", arguments.vectors));
  world.barrier();
  return exit_done;
}

}  // namespace

int evaluate_checkpoint(const EvaluateArguments& arguments, const mpi::Communicator& world,
                        FailureHandler& failure) {
  std::vector<std::string> warnings;
  const LoadedCheckpoint checkpoint = load_checkpoint_everywhere(arguments.checkpoint, world, warnings);
  const LoadedDeck deck = deck_for(arguments, checkpoint, world);
  failure.set_step(checkpoint.state.step);
  const Task task{arguments, checkpoint, deck.config, warnings};
  return under_watch(deck.config, world, failure, [&](const auto& places, mpi::Watchdog& watchdog) {
    return evaluate_watched(task, world, places, watchdog);
  });
}

}  // namespace flotilla
