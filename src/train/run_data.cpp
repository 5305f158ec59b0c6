// SPDX-License-Identifier: Apache-2.0
#include "src/train/run_data.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/error.hpp"

#include "src/data/data_reader.hpp"
#include "src/data/found.hpp"
#include "src/data/input_form.hpp"
#include "src/data/loader.hpp"
#include "src/data/mixup.hpp"
#include "src/job/failure.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/train/found_scaling.hpp"
#include "src/train/inflated_copies.hpp"
#include "src/train/shard_indexes.hpp"

namespace flotilla {

DatasetUse use_of(const ModelConfig& model) {
  return {.targets = model.has_classes() ? 0 : model.outputs, .binary = model.loss == ModelLoss::binary};
}

std::unique_ptr<Dataset> open_validation_data(const Config& config, DatasetUse use) {
  if (!config.data.has_validation()) return nullptr;
  use.training = false;
  return open_dataset(config.data, config.data.validation_source(), config.model.classes,
                      static_cast<std::uint64_t>(config.run.seed) + 1, use);
}

void check_label_texts(const DataConfig& data, const Dataset& set) {
  if (data.found.classes.empty() && !set.facts().class_words.empty())
    throw UserError(cat("the labels of ", set.description(),
                        " are texts, and those of the training data are "
                        "numbers: write numbers, or train on texts"));
}

LoaderOptions loading_for(Device& device, LoaderOptions options) {
  options.pin = [&device](std::span<float> batch) { return device.memory().pin(batch); };
  options.bytes = device.info().stages_bytes;
  return options;
}

namespace {

/// Collective. Each worker reads the labels of its share of the samples.
std::shared_ptr<const ClassSamples> class_samples(const Dataset& data, const Machine& machine) {
  const mpi::Communicator& workers = machine.workers;
  const mpi::CpuProgressScope working(machine.watchdog, "reading the labels of data.train");
  const auto each = static_cast<std::size_t>((data.size() + workers.size() - 1) / workers.size());
  std::vector<std::int32_t> own(each, -1);
  agree(workers, machine.places, [&] {
    for (std::size_t i = 0; i < each; ++i) {
      const auto sample = static_cast<std::int64_t>(each) * workers.rank() + static_cast<std::int64_t>(i);
      if (sample < data.size()) own[i] = data.label(sample);
    }
  });
  std::vector<std::int32_t> labels = workers.all_gather(std::span<const std::int32_t>(own));
  labels.resize(static_cast<std::size_t>(data.size()));
  return std::make_shared<const ClassSamples>(labels);
}

/// Takes the classes that the labels are of.
void find_classes(Config& config, const Dataset& training) {
  if (!config.model.has_classes()) return;
  FoundInData& found = config.data.found;
  const DatasetFacts& facts = training.facts();
  if (found.classes.empty()) found.classes = facts.class_words;
  if (config.model.classes > 0) return;
  if (facts.classes < 2)
    throw UserError(cat("model.classes is missing, and ", training.description(),
                        facts.classes == 1 ? " has labels of one class" : " does not tell it", ": give it"));
  found.class_count = facts.classes;
  use_found(config);
}

}  // namespace

void find_in_data(Config& config, const DatasetUse& use) {
  DataConfig& data = config.data;
  const auto find = reader_of(data.kind).find;
  if (find == nullptr || data.found != FoundInData()) return;
  FoundInData found;
  find({.data = data, .source = data.train, .classes = config.model.classes, .use = use}, found);
  data.found = std::move(found);
}

void RunData::open_training(const Config& config, const DatasetUse& use) {
  training = open_dataset(config.data, config.data.train, config.model.classes,
                          static_cast<std::uint64_t>(config.run.seed), use);
}

RunData::RunData(Config& config, const Machine& machine,
                 const std::map<std::string, std::string>& saved_choices) {
  const mpi::Communicator& workers = machine.workers;
  check_data_files_on_hosts(config, false, workers, machine.places);
  take_found(saved_choices, config);
  const InflatedCopies copies(config.data, false, workers, machine.host, machine.places, machine.watchdog);
  DatasetUse use = use_of(config.model);
  use.ranks_on_host = machine.host.size();
  use.inflated = copies.handles;
  read_together(config, use, workers, machine.places, machine.watchdog);
  agree(workers, machine.places, [&] {
    mpi::CpuProgressScope working(machine.watchdog, "opening data.train");
    find_in_data(config, use);
    open_training(config, use);
    find_classes(config, *training);
  });
  const bool unscaled = wants_scaling(config.data);
  if (unscaled) find_scaling(config.data, *training, workers, machine.watchdog);
  DatasetUse validation_use = use;
  validation_use.training = false;
  if (&config.data.validation_source() != &config.data.train) validation_use.clicks = nullptr;
  read_together(config, validation_use, workers, machine.places, machine.watchdog);
  agree(workers, machine.places, [&] {
    mpi::CpuProgressScope working(machine.watchdog, "opening data.validation");
    if (unscaled) open_training(config, use);
    if (const std::string found = found_text(config); !found.empty()) identities[found_in_data] = found;
    validation = open_validation_data(config, validation_use);
    if (validation) check_label_texts(config.data, *validation);
    if (validation) warnings = validation->facts().warnings;
    if (validation && !(validation->sample_shape() == training->sample_shape()))
      throw UserError(cat("the samples of data.validation are ", validation->sample_shape().text(), " (",
                          validation->description(), "), those of data.train ",
                          training->sample_shape().text(), " (", training->description(),
                          "); give two sets of one shape"));
    identities["model.inputs"] = input_form(config.data, *training);
    if (!config.model.has_classes()) identities["model.targets"] = target_form(config.data);
    if (validation) {
      const std::string note =
          compare_inputs(identities["model.inputs"], input_form(config.data, *validation), "data.validation");
      if (!note.empty()) warnings.push_back(note);
    }
    sharding =
        assign_shards(make_sharding(config, training->size(), workers.size()), *training, config.data.deal);
    check_images(config.train.cutmix, training->sample_shape());
    working.next("reading samples of the data");
    if (!workers.is_root()) return;
    for (const std::string& warning : scale_warnings(config.data, *training)) warnings.push_back(warning);
    class_names = flotilla::class_names(config.data, config.model.classes);
    identities["data.train"] = identity_of(*training);
    if (validation) identities["data.validation"] = identity_of(*validation);
  });
  if (config.data.order == SampleOrder::balanced) sharding.classes = class_samples(*training, machine);
  for (const char* set : {"data.train", "data.validation"}) {
    std::string identity = identities[set];
    workers.broadcast(identity);
    if (identity.empty()) {
      identities.erase(set);
    } else {
      identities[set] = identity;
    }
  }
  const auto same = identities.find("data.validation");
  const bool made_up = !config.data.keys().files;  // from another seed
  if (!made_up && same != identities.end() && same->second == identities["data.train"])
    warnings.push_back(cat("data.train and data.validation hold the same samples (", same->second,
                           "): their validation does not tell how the model does on others; name other ones "
                           "in data.validation (of arrays in one file by data.validation.inputs and "
                           "data.validation.targets)"));
  check_same_data(workers, machine.places, training->size(), "data.train");
  if (validation) check_same_data(workers, machine.places, validation->size(), "data.validation");
  check_targets(*training, "data.train", workers, machine.watchdog);
  if (validation) check_targets(*validation, "data.validation", workers, machine.watchdog);
}

void check_targets(const Dataset& data, const std::string& key, const mpi::Communicator& world,
                   mpi::Watchdog& watchdog) {
  if (data.target_width() == 0) return;
  MistakeList mistakes;
  agree(world, after_long_work(world, [&] {
          const mpi::CpuProgressScope working(watchdog, "checking the targets of samples");
          const ValidationShard own = validation_shard(data.size(), world.size(), world.rank());
          data.check_targets(own.begin, own.end - own.begin, mistakes);
        }));
  const MistakeList all = gathered_mistakes(mistakes, world);
  throw_alike([&] { all.throw_if_any(key); });
}

MistakeList gathered_mistakes(const MistakeList& mine, const mpi::Communicator& world) {
  MistakeList all;
  for (const MistakeList& each : gather_packed(mine, world)) all.add(each);
  return all;
}

double epochs_at(const Sharding& sharding, const Position& position) {
  const std::int64_t whole = sharding.consumed_per_epoch();
  return static_cast<double>(position.epoch) +
         static_cast<double>(std::min(position.offset, whole)) / static_cast<double>(whole);
}

RunEnd end_of(const TrainConfig& train, const Sharding& sharding, std::int64_t step,
              const Position& position) {
  if (train.epochs == 0 && train.steps == 0)
    return {.step = std::numeric_limits<std::int64_t>::max(),
            .epochs = std::numeric_limits<double>::infinity(),
            .decay_steps = std::numeric_limits<std::int64_t>::max()};
  const std::int64_t by_epochs = sharding.steps_until(position, train.epochs);
  const std::int64_t by_steps = std::max<std::int64_t>(train.steps - step, 0);
  if (train.epochs == 0)
    return {.step = step + by_steps,
            .epochs = epochs_at(sharding, Sampler(0, sharding).after(position, by_steps)),
            .decay_steps = sharding.steps_before(position) + by_steps};
  return {.step = step + (train.steps == 0 ? by_epochs : std::min(by_epochs, by_steps)),
          .epochs = static_cast<double>(train.epochs),
          .decay_steps = sharding.steps_before(position) + by_epochs};
}

Progress progress_at(const Sharding& sharding, const Position& position, const RunEnd& end,
                     std::int64_t reductions) {
  return {.epochs = epochs_at(sharding, position),
          .total_epochs = end.epochs,
          .step = sharding.steps_before(position),
          .total_steps = end.decay_steps,
          .reductions = reductions};
}

}  // namespace flotilla
