// SPDX-License-Identifier: Apache-2.0
#include "src/commands/evaluate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/class_names.hpp"
#include "src/commands/class_table.hpp"
#include "src/commands/inference.hpp"
#include "src/commands/job_scopes.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/output_table.hpp"
#include "src/commands/sample_outputs.hpp"
#include "src/config/deck.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/files/atomic_file.hpp"
#include "src/observe/print.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/find_checkpoint.hpp"

namespace flotilla {

namespace {

/// The arguments of an evaluation.
struct Task {
  const EvaluateArguments& arguments;
  const LoadedCheckpoint& checkpoint;
  const Config& config;
  const std::vector<std::string>& warnings;
  const std::vector<std::string>& names;  ///< Of classes; empty: they have numbers only
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
  print_line(fmt::format("loss        {:.5f}", result.loss));
  if (result.outputs) {
    for (const std::string& line : lines_of(*result.outputs)) print_line(line);
  } else {
    print_line(fmt::format("top-1       {:.5f}", result.accuracy_top1));
    print_line(fmt::format("top-5       {:.5f}", result.accuracy_top5));
  }
  if (result.clicks) {
    const ClickMetrics& clicks = *result.clicks;
    print_line(fmt::format("auc         {:.5f}, ± {:.5f} by its bins", clicks.auc, clicks.auc_bound));
    print_line(fmt::format("pr-auc      {:.5f}", clicks.pr_auc));
    print_line(fmt::format("log loss    {:.5f}", clicks.log_loss));
    print_line(fmt::format("calibration {:.5f}", clicks.calibration));
  }
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
                                 {"samples", result.samples},
                                 {"loss", result.loss}};
  if (result.outputs) {
    add_metrics(*result.outputs, json);
  } else {
    json["accuracy_top1"] = result.accuracy_top1;
    json["accuracy_top5"] = result.accuracy_top5;
  }
  if (result.clicks) {
    const ClickMetrics& clicks = *result.clicks;
    json.update({{"auc", clicks.auc},
                 {"auc_bound", clicks.auc_bound},
                 {"pr_auc", clicks.pr_auc},
                 {"log_loss", clicks.log_loss},
                 {"calibration", clicks.calibration}});
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
  if (config.data.kind != DataKind::image_folder || names.empty() || !config.data.validation.given) return;
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
  Inference inference(
      config, checkpoint, {world, places, watchdog},
      [&] {
        check_data_files(config, true);
        check_class_folders(config, class_names_of(checkpoint.state));
        if (!world.is_root()) return;
        for (const std::string& path : {arguments.vectors, arguments.output})
          if (!path.empty()) check_output_file(path, {});
        check_outputs({arguments.vectors, arguments.output}, config, config.data.validation,
                      {checkpoint.path, arguments.deck});
        check_ending(arguments.vectors, {".h5", ".hdf5"}, "an HDF5 file");
        check_ending(arguments.output, {".json", ".txt"}, "JSON");
      },
      [&](std::int64_t /*samples*/) {
        if (config.validation.batch_size > 0) return config.validation.batch_size;
        if (config.train.batch_size > 0) return config.train.batch_size;
        return std::max<std::int64_t>(1, config.train.global_batch_size / world.size());
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
  const Evaluation result = evaluate(inference.network(), data, world, loader_options(config.data),
                                     inference.sums(), 1, config, on_batch, inference.inputs());
  agree(world, [&] {
    if (std::isfinite(result.loss)) return;
    throw UserError(cat(checkpoint.path, ": its loss on ", data.description(), " is ",
                        std::isnan(result.loss) ? "NaN" : "infinite",
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
    const bool made_up = config.data.kind == DataKind::random;  // from another seed
    if (!made_up && trained != checkpoint.state.choices.end() && trained->second == identity_of(data))
      told.push_back(cat("these are the samples that the model was trained on (", trained->second,
                         "): their figures do not tell how it does on others"));
    for (const std::string& warning : told)
      on_stdout ? print_error_line("flotilla: warning: " + warning) : print_line("warning: " + warning);
    if (arguments.json) write_json(task, data, result, classes);
    if (!on_stdout) print_report(task, data, result, classes);
  });
  world.barrier();
  return exit_done;
}

}  // namespace

int evaluate_checkpoint(const EvaluateArguments& arguments, const mpi::Communicator& world,
                        FailureHandler& failure) {
  std::vector<std::string> warnings;
  const LoadedCheckpoint checkpoint = load_checkpoint_everywhere(arguments.checkpoint, world, warnings);
  const LoadedDeck deck =
      deck_for(checkpoint, arguments.deck, arguments.overrides, "flotilla evaluate FILE DECK", world);
  throw_alike([&] {
    if (!deck.config.model.has_classes() && (arguments.per_class || arguments.confusion))
      throw UserError(cat(arguments.per_class ? "--per-class" : "--confusion", " is of classes, and ",
                          checkpoint.path, " predicts numbers (model.loss = \"", deck.config.model.loss,
                          "\"): leave it out, the table of the outputs is printed anyway"));
  });
  failure.set_step(checkpoint.state.step);
  const std::vector<std::string> names = names_for(checkpoint, deck.config, world);
  const Task task{arguments, checkpoint, deck.config, warnings, names};
  JobWatchdog job(deck, world, failure);
  return evaluate_watched(task, world, job.places(), job.watchdog());
}

}  // namespace flotilla
