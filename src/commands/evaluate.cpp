// SPDX-License-Identifier: Apache-2.0
#include "src/commands/evaluate.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/commands/inference.hpp"
#include "src/commands/job_scopes.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/subcommand.hpp"
#include "src/config/deck.hpp"
#include "src/config/values.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/files/atomic_file.hpp"
#include "src/job/failure.hpp"
#include "src/observe/metrics.hpp"
#include "src/observe/print.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/find_checkpoint.hpp"
#include "src/train/shard_indexes.hpp"

namespace flotilla {

namespace {

std::string share(std::int64_t part, std::int64_t all) {
  return all > 0 ? fmt::format("{:.5f}", static_cast<double>(part) / static_cast<double>(all)) : "-";
}

std::size_t width_of(std::int64_t number) {
  return std::to_string(number).size();
}

constexpr std::size_t max_shown_outputs = 32;

std::string metric_text(const Metric& metric, double value) {
  return metric.shown == Shown::significant ? fmt::format("{:.6g}", value) : fmt::format("{:.5f}", value);
}

/// A line for each figure but the loss, with the bound of one that has one. @param classes of the model
std::vector<std::string> lines_of(const Figures& figures, std::int64_t classes) {
  std::vector<std::string> lines;
  for (const Metric& metric : metrics()) {
    const auto found = figures.find(metric.key);
    if (found == figures.end() || metric.of == MetricOf::all || metric.key.ends_with("_bound")) continue;
    if (!metric.is_shown(classes, found->second)) continue;
    lines.push_back(fmt::format("{:<12}{}", metric.label.empty() ? metric.key : metric.label,
                                metric_text(metric, found->second)));
    if (const auto bound = figures.find(cat(metric.key, "_bound")); bound != figures.end())
      lines.back() += fmt::format(", ± {:.5f} by its bins", bound->second);
  }
  return lines;
}

/// A table of the outputs, by their numbers, where there are several; of more than 32 it is left to the JSON.
std::vector<std::string> lines_of(const std::vector<Figures>& outputs) {
  if (outputs.size() < 2) return {};
  if (outputs.size() > max_shown_outputs)
    return {cat("outputs     ", outputs.size(), ": those of each are in the JSON (--json)")};
  std::vector<std::string> lines(1 + outputs.size());
  lines[0] = fmt::format("{:>8}", "output");
  for (std::size_t output = 0; output < outputs.size(); ++output)
    lines[1 + output] = fmt::format("{:>8}", output);
  for (const Metric& metric : metrics()) {
    if (!outputs.front().contains(metric.key)) continue;
    lines[0] += fmt::format("{:>14}", metric.key);
    for (std::size_t output = 0; output < outputs.size(); ++output)
      lines[1 + output] +=
          fmt::format("{:>14}", metric_text(metric, outputs[output].find(metric.key)->second));
  }
  return lines;
}

/// Adds the figures in the order of metrics(), as in metrics.jsonl.
void add_figures(const Figures& figures, nlohmann::ordered_json& json) {
  for (const Metric& metric : metrics())
    if (const auto found = figures.find(metric.key); found != figures.end())
      json[std::string(metric.key)] = found->second;
}

/// The last layer's outputs of every sample of this rank's shard, for --vectors.
class SampleOutputs {
 public:
  void add(std::span<const float> rows) { values_.insert(values_.end(), rows.begin(), rows.end()); }

  /// Collective. The dataset /vectors (samples × outputs) in the order of the data, whatever the rank count.
  void write(const std::string& path, std::int64_t outputs, std::int64_t samples,
             const mpi::Communicator& world) const;

 private:
  std::vector<float> values_;
};

void SampleOutputs::write(const std::string& path, std::int64_t outputs, std::int64_t samples,
                          const mpi::Communicator& world) const {
  const std::vector<float> all = world.gather(std::span(values_));
  agree(world, [&] {
    if (world.is_root()) write_array(path, "vectors", {samples, outputs}, all);
  });
}

/// The arguments of an evaluation.
struct Task {
  const EvaluateArguments& arguments;
  const LoadedCheckpoint& checkpoint;
  const Config& config;
  const std::vector<std::string>& warnings;
  const std::vector<std::string>& names;  ///< Names of classes; empty: they have numbers only
};

void print_report(const Task& task, const Dataset& data, const Evaluation& result,
                  const ClassTable& classes) {
  const EvaluateArguments& arguments = task.arguments;
  const CheckpointState& state = task.checkpoint.state;
  print_line(cat("checkpoint  ", task.checkpoint.path,
                 state.deck.empty() ? " (weights only)" : cat(" (step ", state.step, ")")));
  const bool has_averages = state.resumes() && read_saved_deck(state.deck).train.average_decay > 0.0;
  if (has_averages)
    print_line("weights     those that were trained; flotilla export --average writes the averaged ones");
  print_line(cat("data        ", data.description()));
  print_line(fmt::format("samples     {}", result.samples));
  print_line(fmt::format("loss        {:.5f}", result.loss()));
  for (const std::string& line : lines_of(result.figures, task.config.model.classes)) print_line(line);
  for (const std::string& line : lines_of(result.outputs)) print_line(line);
  if (arguments.per_class)
    for (const std::string& line : classes.lines()) print_line(line);
  if (arguments.confusion)
    for (const std::string& line : classes.matrix_lines()) print_line(line);
  if (!arguments.vectors.empty()) print_line(cat("vectors     ", arguments.vectors));
  if (!arguments.output.empty()) print_line(cat("json        ", arguments.output));
}

nlohmann::ordered_json share_of(std::int64_t part, std::int64_t all) {
  if (all == 0) return nullptr;
  return static_cast<double>(part) / static_cast<double>(all);
}

/// One object on a line, to arguments.output or stdout; its keys are those of metrics.jsonl.
void write_json(const Task& task, const Dataset& data, const Evaluation& result, const ClassTable& classes) {
  nlohmann::ordered_json json = {{"checkpoint", task.checkpoint.path},
                                 {"step", task.checkpoint.state.step},
                                 {"data", data.description()},
                                 {"samples", result.samples}};
  add_figures(result.figures, json);
  for (std::size_t output = 0; output < result.outputs.size(); ++output) {
    nlohmann::ordered_json one = {{"output", output}};
    add_figures(result.outputs[output], one);
    json["outputs"].push_back(std::move(one));
  }
  const auto count = static_cast<std::size_t>(classes.classes());
  for (std::size_t label = 0; label < count; ++label) {
    json["classes"].push_back({{"class", classes.name(label)},
                               {"samples", classes.samples(label)},
                               {"predicted", classes.predicted(label)},
                               {"correct", classes.correct(label)},
                               {"recall", share_of(classes.correct(label), classes.samples(label))},
                               {"precision", share_of(classes.correct(label), classes.predicted(label))}});
    if (!classes.has_matrix()) continue;
    nlohmann::ordered_json row = nlohmann::ordered_json::array();
    for (std::size_t taken = 0; taken < count; ++taken) row.push_back(classes.count(label, taken));
    json["confusion"].push_back(std::move(row));
  }
  const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (task.arguments.output.empty())
    print_line(text);
  else
    write_text_file_atomically(task.arguments.output, text + "\n");
}

/// @throws UserError if the class folders of the data are not the classes that the model was trained on
void check_class_folders(const Config& config, const std::vector<std::string>& names) {
  if (!reader_of(config.data.kind).class_folders || names.empty() || !config.data.validation.given) return;
  const std::vector<std::string> folders = class_folders(config.data.validation.path);
  const auto differs = std::ranges::mismatch(folders, names);
  if (folders.size() != names.size() || differs.in1 == folders.end()) return;  // a number is refused anyway
  throw UserError(cat(config.data.validation.path, ": its class folder ", config::quoted(*differs.in1),
                      " stands where the checkpoint has the class ", config::quoted(*differs.in2),
                      "; both must have the same names, a class without images an empty folder"));
}

/// Collective.
int evaluate_watched(const Task& task, const mpi::Communicator& world, const std::vector<mpi::Place>& places,
                     mpi::Watchdog& watchdog) {
  const auto& [arguments, checkpoint, config, warnings, names] = task;
  check_data_files_on_hosts(config, true, world, places);
  Inference inference(
      config, checkpoint, {world, places, watchdog},
      [&] {
        if (!world.is_root()) return;

        check_class_folders(config, class_names_of(checkpoint.state));
        for (const std::string& path : {arguments.vectors, arguments.output})
          if (!path.empty()) check_output_file(path, {});
        check_outputs({arguments.vectors, arguments.output}, config, config.data.validation_source(),
                      {checkpoint.path, arguments.deck});
        check_ending(arguments.vectors, {".h5", ".hdf5"}, "an HDF5 file");
        check_ending(arguments.output, {".json", ".txt"}, "JSON");
      },
      [&](std::int64_t /*samples*/) {
        if (config.validation.batch_size > 0) return config.validation.batch_size;
        if (config.train.batch_size > 0) return config.train.batch_size;
        return std::max<std::int64_t>(1, config.train.global_batch_size / world.size());
      },
      [&](std::int64_t samples, std::int64_t /*batch*/) {
        return validation_shard(samples, world.size(), world.rank());
      });
  const Dataset& data = inference.data();
  SampleOutputs outputs;
  ClassTable classes(config.model.classes, names, arguments.json || arguments.confusion);
  const bool counts_classes =
      config.model.has_classes() && (arguments.per_class || arguments.json || arguments.confusion);
  std::int64_t batches = 0;
  const auto on_batch = [&](const Batch& batch) {
    watchdog.beat("evaluating", checkpoint.state.step, batches++);
    if (arguments.vectors.empty() && !counts_classes) return;
    const std::span<const float> given = inference.outputs(batch);
    if (!arguments.vectors.empty()) outputs.add(given);
    if (counts_classes) classes.add(given, batch.labels.first(static_cast<std::size_t>(batch.valid)));
  };
  const Evaluation result =
      evaluate({inference.network(), data, loader_options(config.data), inference.sums(), inference.inputs()},
               world, 1, config, on_batch);
  agree(world, [&] {
    if (std::isfinite(result.loss())) return;
    throw UserError(cat(checkpoint.path, ": its loss on ", data.description(), " is ",
                        std::isnan(result.loss()) ? "NaN" : "infinite",
                        ", first in the batch that begins at sample ", result.not_finite,
                        " (counted from 0); the model diverged or is not made for these data: "
                        "`flotilla inspect ",
                        checkpoint.path, "` shows the range of each tensor"));
  });
  watchdog.beat("collecting the results", checkpoint.state.step);
  if (!arguments.vectors.empty())
    outputs.write(arguments.vectors, config.model.output_width(), data.size(), world);
  if (counts_classes) classes.merge(world);
  agree(world, [&] {
    if (!world.is_root()) return;
    const bool on_stdout = arguments.json && arguments.output.empty();
    std::vector<std::string> told = warnings;
    told.insert(told.end(), inference.notes().begin(), inference.notes().end());
    const auto trained = checkpoint.state.choices.find("data.train");
    const bool made_up = !config.data.keys().files;  // from another seed
    if (!made_up && trained != checkpoint.state.choices.end() && trained->second == identity_of(data))
      told.push_back(cat("these are the samples that the model was trained on (", trained->second,
                         "): their figures do not tell how it does on others"));
    for (const std::string& warning : told)
      on_stdout ? print_warning(warning) : print_line("warning: " + warning);
    if (arguments.json) write_json(task, data, result, classes);
    if (!on_stdout) print_report(task, data, result, classes);
  });
  world.barrier();
  return exit_done;
}

/// Collective. `flotilla evaluate`: loss and accuracies on data.validation, each sample counted once. The
/// training data is not opened.
int evaluate_checkpoint(const EvaluateArguments& arguments, const mpi::Communicator& world,
                        FailureHandler& failure) {
  std::vector<std::string> warnings;
  const LoadedCheckpoint checkpoint =
      load_checkpoint_everywhere(arguments.checkpoint, arguments.best, world, warnings);
  const LoadedDeck deck =
      deck_for(checkpoint, arguments.deck, arguments.overrides, "flotilla evaluate FILE DECK", world);
  throw_alike([&] {
    if (!deck.config.model.has_classes() && (arguments.per_class || arguments.confusion))
      throw UserError(cat(arguments.per_class ? "--per-class" : "--confusion", " applies to classes, but ",
                          checkpoint.path, " predicts numbers (model.loss = \"", deck.config.model.loss,
                          "\"): leave it out, the table of the outputs is printed anyway"));
  });
  failure.set_step(checkpoint.state.step);
  const std::vector<std::string> names = names_for(checkpoint, deck.config, world);
  const Task task{arguments, checkpoint, deck.config, warnings, names};
  JobWatchdog job(deck, world, failure);
  return evaluate_watched(task, world, job.places(), job.watchdog());
}

}  // namespace

ClassTable::ClassTable(std::int64_t classes, std::vector<std::string> names, bool matrix)
    : classes_(static_cast<std::size_t>(classes)),
      names_(std::move(names)),
      samples_(classes_),
      predicted_(classes_),
      correct_(classes_),
      matrix_(matrix && classes <= max_for_matrix ? classes_ * classes_ : 0) {}

void ClassTable::add(std::span<const float> rows, std::span<const std::int32_t> labels) {
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::span<const float> outputs = rows.subspan(row * classes_, classes_);
    const auto label = static_cast<std::size_t>(labels[row]);
    const auto best = static_cast<std::size_t>(std::ranges::max_element(outputs) - outputs.begin());
    ++samples_[label];
    ++predicted_[best];
    correct_[label] += best == label;
    if (has_matrix()) ++matrix_[label * classes_ + best];
  }
}

void ClassTable::merge(const mpi::Communicator& world) {
  for (std::vector<std::int64_t>* counts : {&samples_, &predicted_, &correct_, &matrix_})
    if (!counts->empty()) world.all_reduce(std::span<std::int64_t>(*counts));
}

std::string ClassTable::name(std::size_t label) const {
  return names_.empty() ? std::to_string(label) : names_[label];
}

std::vector<std::string> ClassTable::lines() const {
  std::vector<std::string> lines = {
      fmt::format("{:>8}{:>10}{:>10}{:>11}", "class", "samples", "top-1", "precision")};
  for (std::size_t label = 0; label < classes_; ++label)
    lines.push_back(fmt::format(
        "{:>8}{:>10}{:>10}{:>11}{}", label, samples_[label], share(correct_[label], samples_[label]),
        share(correct_[label], predicted_[label]), names_.empty() ? "" : "  " + names_[label]));
  return lines;
}

std::vector<std::string> ClassTable::matrix_lines() const {
  std::size_t width = width_of(static_cast<std::int64_t>(classes_));
  for (const std::int64_t count : matrix_) width = std::max(width, width_of(count));
  std::string columns = fmt::format("{:>8}", "class");
  for (std::size_t taken = 0; taken < classes_; ++taken) columns += fmt::format("  {:>{}}", taken, width);
  std::vector<std::string> lines = {"confusion   rows: true classes, columns: predicted ones", columns};
  for (std::size_t label = 0; label < classes_; ++label) {
    std::string line = fmt::format("{:>8}", label);
    for (std::size_t taken = 0; taken < classes_; ++taken)
      line += fmt::format("  {:>{}}", count(label, taken), width);
    lines.push_back(names_.empty() ? line : line + "  " + names_[label]);
  }
  return lines;
}

Subcommand evaluate_command() {
  return SubcommandOf<EvaluateArguments>{
      .name = "evaluate",
      .help = "Evaluate a checkpoint on validation data",
      .add_options =
          [](CLI::App& command, EvaluateArguments& arguments, Positionals& positionals) {
            positionals.add_file(command, "CHECKPOINT",
                                 "File, or a run's folder: its newest good checkpoint");
            positionals.add_file(command, "DECK", "Deck to use instead of the checkpoint's own", false);
            positionals.add_overrides(command);
            command.add_flag("--best", arguments.best, best_help);
            command.add_option("--vectors", arguments.vectors, "HDF5 file for the outputs of every sample");
            command.add_flag("--per-class", arguments.per_class,
                             "Print samples, top-1 accuracy (recall) and precision of each class");
            command.add_flag("--confusion", arguments.confusion,
                             "Print how many samples of each class were taken for each class");
            CLI::Option* json = command.add_flag(
                "--json", arguments.json, "Print one JSON object instead, with classes and confusion matrix");
            command.add_option("--output", arguments.output, "File for the JSON, beside the usual lines")
                ->needs(json);
          },
      .take_positionals =
          [](EvaluateArguments& arguments, Positionals& positionals) {
            arguments.checkpoint = positionals.take_file("CHECKPOINT");
            arguments.deck = positionals.take_deck(false);
            arguments.overrides = positionals.overrides;
          },
      .run_on_ranks = evaluate_checkpoint,
  };
}

}  // namespace flotilla
