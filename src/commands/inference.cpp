// SPDX-License-Identifier: Apache-2.0
#include "src/commands/inference.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/found.hpp"
#include "src/data/input_form.hpp"
#include "src/job/devices.hpp"
#include "src/job/failure.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/console.hpp"
#include "src/parameter_server/server/row_store.hpp"
#include "src/parameter_server/worker/embeddings.hpp"
#include "src/train/inflated_copies.hpp"
#include "src/train/model_kinds.hpp"
#include "src/train/model_state.hpp"
#include "src/train/run_data.hpp"
#include "src/train/shard_indexes.hpp"

namespace flotilla {

LoadedDeck deck_for(const LoadedCheckpoint& checkpoint, const std::string& path,
                    const std::vector<std::string>& overrides, const std::string& remedy,
                    const mpi::Communicator& world) {
  LoadedDeck deck;
  if (!path.empty()) {
    deck = load_deck_everywhere(path, overrides, world);
    take_found(checkpoint.state.choices, deck.config);
    return deck;
  }
  agree(world, [&] {
    if (checkpoint.state.deck.empty())
      throw UserError(cat(checkpoint.path, " holds weights only: give a deck as well (", remedy, ")"));
    deck = load_deck(
        {.path = checkpoint.path, .text = checkpoint.state.deck, .overrides = overrides, .saved = true});
  });
  check_same_deck(deck.config, world);
  take_found(checkpoint.state.choices, deck.config);
  return deck;
}

std::vector<std::string> names_for(const LoadedCheckpoint& checkpoint, const Config& config,
                                   const mpi::Communicator& world) {
  // Training's own file need not be there any more.
  const bool given = !config.data.class_names.empty() &&
                     (checkpoint.state.deck.empty() ||
                      read_saved_deck(checkpoint.state.deck).data.class_names != config.data.class_names);
  std::vector<std::string> names = class_names_of(checkpoint.state);
  agree(world, [&] {
    if (given) names = class_names(config.data, config.model.classes);
    if (std::ssize(names) != config.model.classes) names.clear();  // the command line changed model.classes
  });
  return names;
}

namespace {

/// @throws UserError that names the data where a checkpoint does not fit the network because of the shape of
/// the samples: the network is the one that the checkpoint's own deck describes
void check_samples(const CheckpointFile& file, const LoadedCheckpoint& checkpoint, const Config& config,
                   const Dataset& data, const std::vector<CheckpointTensor>& expected) {
  if (checkpoint.state.deck.empty() ||
      std::ranges::any_of(differences_at_resume(checkpoint.state.deck, config.resolved_text),
                          [](const ResumeDifference& each) { return each.key.starts_with("model."); }))
    return;
  for (const CheckpointTensor& tensor : expected) {
    const auto found = std::ranges::find(file.tensors(), tensor.path, &CheckpointTensor::path);
    if (found == file.tensors().end() || found->shape == tensor.shape) continue;
    throw UserError(cat("the samples have another shape than those that ", checkpoint.path,
                        " was trained on: its ", tensor.path, " is ", found->shape.text(), ", and ",
                        data.description(), " need ", tensor.shape.text(),
                        "; give samples with the values that training had, in their order"));
  }
}

/// @returns what differs between the data and those of training, or that this is not known
/// @throws UserError where the model would see other values of the same numbers than in training
std::vector<std::string> compare_scaling(const LoadedCheckpoint& checkpoint, const Config& config,
                                         const Dataset& data) {
  const auto& choices = checkpoint.state.choices;
  const std::string here = input_form(config.data, data);
  const auto inputs = choices.find("model.inputs");
  if (inputs == choices.end())
    return {cat(checkpoint.path, " does not say how the inputs of its training were scaled; the deck says ",
                here)};
  if (const auto targets = choices.find("model.targets"); targets != choices.end())
    compare_targets(targets->second, target_form(config.data));
  const std::string note = compare_inputs(inputs->second, here, data.description());
  return note.empty() ? std::vector<std::string>() : std::vector{note};
}

/// @throws UserError where other samples are held back than in training, which saw some of them
void check_share(const LoadedCheckpoint& checkpoint, const Config& config) {
  const double now = config.data.validation.share;
  if (now == 0.0 || checkpoint.state.deck.empty()) return;
  const double then = read_saved_deck(checkpoint.state.deck).data.validation.share;
  if (now != then)
    throw UserError(cat("data.validation.share is ", now, ", and was ", then, " in the training of ",
                        checkpoint.path,
                        ", which saw samples that would be held back now: leave it out, or "
                        "name others in data.validation.path"));
}

}  // namespace

/// The rows of embeddings that this rank needs: there are no servers.
class Inference::LocalEmbeddings {
 public:
  LocalEmbeddings(const Config& config, const Dataset& data, std::int64_t batch)
      : rows_(config),
        pool_(bags_of(config.model, data, batch), config.model.embeddings == EmbeddingTables::per_slot) {}

  RowStore& rows() { return rows_; }
  /// The keys of a batch's rows.
  std::span<const std::uint64_t> keys(const Batch& batch) { return pool_.find(batch); }
  std::span<float> features(const Batch& batch) {
    const std::span<const std::uint64_t> needed = keys(batch);
    rows_.table(0).pull_without_insert(needed, pool_.rows());
    return pool_.forward(batch);
  }

 private:
  RowStore rows_;
  EmbeddingPool pool_;
};

Inference::Inference(const Config& config, const LoadedCheckpoint& checkpoint, const InferenceRanks& ranks,
                     const std::function<void()>& check,
                     const std::function<std::int64_t(std::int64_t)>& batch,
                     const std::function<ValidationShard(std::int64_t, std::int64_t)>& shard)
    : width_(config.model.output_width()) {
  if (!config.model.has_classes() && config.model.loss != ModelLoss::binary) units_.emplace(config);
  const auto& [world, places, watchdog] = ranks;
  if (world.is_root()) Console::of_process().use_terminal();
  const mpi::GpuBinding gpus = find_gpus(config.device, world, places);
  const Precision precision = find_precision(config.device, world, places);
  agree(world, places, [&] {
    const mpi::CpuProgressScope working(watchdog, "looking at files");
    check();
  });
  const InflatedCopies copies(config.data, true, world, world.split_by_host(), places, watchdog);
  DatasetUse use = use_of(config.model);
  use.training = false;
  use.ranks_on_host = 0;
  use.inflated = copies.handles;
  read_together(config, use, world, places, watchdog);
  Model model;
  agree(world, [&] {
    mpi::CpuProgressScope working(watchdog, "preparing the device");
    device_ = make_device(config.device, precision, places[static_cast<std::size_t>(world.rank())],
                          gpus.ordinal(world.rank()), config.run.reproducible);
    working.next("opening data.validation");
    if (config.data.keys().table && config.data.found.columns.empty())
      throw UserError(cat(checkpoint.path,
                          " was trained on other data than data.kind = \"csv\" and keeps no "
                          "columns of a table: give it data of its own kind"));
    check_share(checkpoint, config);
    data_ = open_validation_data(config, use);
    if (!data_)
      throw UserError(cat("the deck names no validation data: give ",
                          config.data.keys().path ? "data.validation.path=FILE"
                          : config.data.keys().files
                              ? "data.validation.images=FILE data.validation.labels=FILE"
                              : "data.validation.samples=NUMBER",
                          " on the command line, or data.validation in the deck"));
    check_label_texts(config.data, *data_);
    notes_ = compare_scaling(checkpoint, config, *data_);
    for (const std::string& warning : data_->facts().warnings) notes_.push_back(warning);
    working.next("making the network");
    network_ = make_network(*device_, config,
                            {.sample = data_->sample_shape(),
                             .slots = data_->slots(),
                             .batch = batch(data_->size()),
                             .purpose = Purpose::inference});
    parameters_ = device_->memory().allocate(static_cast<std::size_t>(network_->layout().size()));
    statistics_ =
        device_->memory().allocate(static_cast<std::size_t>(network_->statistics().layout().size()));
    model = {parameters_.span(), statistics_.span()};
    sums_ = device_->memory().allocate(ArenaLayout::alignment);
    rows_.resize(static_cast<std::size_t>(network_->batch() * width_));
    working.next("reading the checkpoint");
    if (config.model.has_embeddings())
      embeddings_ = std::make_unique<LocalEmbeddings>(config, *data_, network_->batch());
    if (world.is_root()) {
      CheckpointFile file(checkpoint.path, CheckpointFile::Content::weights);
      check_samples(file, checkpoint, config, *data_,
                    checkpoint_tensors(*network_, state_arrays(model, nullptr)));
      restore(file, checkpoint.path, *network_, state_arrays(model, nullptr));
    }
  });
  watchdog.beat("comparing the data of the ranks", 0);
  check_same_data(world, places, data_->size(),
                  config.data.validation.has_labels() ? "data.validation" : "the input");
  check_targets(*data_, "data.validation", world, watchdog);
  if (embeddings_) read_rows(checkpoint, config.data, ranks, shard(data_->size(), network_->batch()));
  network_->bind({.parameters = model.parameters,
                  .gradients = {},
                  .statistics = model.statistics,
                  .step_statistics = {}});
  broadcast(*device_, world, state_arrays(model, nullptr));
}

Inference::~Inference() = default;

/// The keys of the rows that these samples name, ascending.
std::vector<std::uint64_t> Inference::keys_of(ValidationShard shard, const LoaderOptions& options) {
  constexpr std::size_t most_repeated = std::size_t{1} << 20;
  std::vector<std::uint64_t> keys;
  std::size_t unique = 0;
  const auto leave_out_repeated = [&] {
    std::ranges::sort(keys);
    keys.erase(std::ranges::unique(keys).begin(), keys.end());
    unique = keys.size();
  };
  if (shard.begin == shard.end) return keys;
  const auto loader =
      make_validation_loader(*data_, shard, network_->batch(), loading_for(*device_, options));
  for (const Batch* batch = &loader->next(); batch->valid > 0; batch = &loader->next()) {
    const std::span<const std::uint64_t> found = embeddings_->keys(*batch);
    keys.insert(keys.end(), found.begin(), found.end());
    if (keys.size() > 2 * unique + most_repeated) leave_out_repeated();
  }
  leave_out_repeated();
  return keys;
}

/// Collective. Rank 0 reads the rows of the checkpoint and tells them; each rank keeps those that its samples
/// name. One rank alone keeps all.
void Inference::read_rows(const LoadedCheckpoint& checkpoint, const DataConfig& data,
                          const InferenceRanks& ranks, ValidationShard shard) {
  const auto& [world, places, watchdog] = ranks;
  const mpi::CpuProgressScope working(watchdog, "reading rows of embeddings");
  std::vector<std::unique_ptr<RowFileReader>> files;
  std::vector<std::uint64_t> keys;
  agree(world, places, [&] {
    if (world.is_root()) files = open_rows(checkpoint.path, checkpoint.state);
    if (world.is_root() && files.empty()) throw UserError(cat(checkpoint.path, " has no rows of embeddings"));
    if (world.size() > 1) keys = keys_of(shard, loader_options(data));
  });
  auto count = std::ssize(files);
  world.broadcast(std::span(&count, 1));
  files.resize(static_cast<std::size_t>(count));
  const auto is_needed = [&](std::uint64_t key) {
    return world.size() == 1 || std::ranges::binary_search(keys, key);
  };
  agree(world, [&] {
    for (auto& file : files) {
      SharedRows rows(std::move(file), 0, world, RowState::left_out);
      load_rows(embeddings_->rows(), rows, checkpoint.path, is_needed);
    }
  });
}

NetworkInputs Inference::inputs() {
  if (!embeddings_) return {};
  return [this](const Batch& batch) { return embeddings_->features(batch); };
}

std::span<const float> Inference::outputs(const Batch& batch) {
  device_->tensors().download(network_->logits(), rows_);
  const auto rows = std::span(rows_).first(static_cast<std::size_t>(batch.valid * width_));
  for (std::size_t i = 0; units_ && i < rows.size(); ++i)
    rows[i] = static_cast<float>(units_->value(rows[i], i % units_->width()));
  return rows;
}

}  // namespace flotilla
