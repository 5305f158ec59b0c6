// SPDX-License-Identifier: Apache-2.0
#include "src/commands/predict.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <sstream>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/commands/inference.hpp"
#include "src/commands/job_scopes.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/subcommand.hpp"
#include "src/data/data_reader.hpp"
#include "src/files/atomic_file.hpp"
#include "src/observe/print.hpp"
#include "src/train/monitor/click_metrics.hpp"

namespace flotilla {

namespace {

/// Bytes that are not UTF-8, which names of files may hold, become U+FFFD.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// A field in UTF-8, as json_text() has it. Fields with commas, quotes or line ends are quoted as in RFC
/// 4180.
std::string csv_field(const std::string& given) {
  const auto text = nlohmann::json::parse(json_text(given)).get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

std::string number_text(double probability) {
  return fmt::format("{:.6g}", probability);
}

std::string class_text(const PredictionLayout& layout, std::size_t label) {
  return layout.classes.empty() ? std::to_string(label) : layout.classes[label];
}

/// Whether the outputs are written as columns in their order, not as a ranking.
bool has_columns(const PredictionLayout& layout) {
  return layout.all || layout.told != Told::classes;
}

std::string column_name(const PredictionLayout& layout, std::size_t column) {
  return layout.told == Told::classes ? csv_field(class_text(layout, column)) : cat("output_", column);
}

/// The columns as text, a comma before each.
std::string columns_of(const PredictionLayout& layout, std::span<const float> outputs) {
  std::string text;
  if (layout.told == Told::classes) {
    for (const double probability : probabilities_of(outputs)) text += "," + number_text(probability);
    return text;
  }
  for (const float output : outputs)
    text += "," + (layout.told == Told::numbers
                       ? fmt::format("{}", output)
                       : number_text(1.0 / (1.0 + std::exp(-static_cast<double>(output)))));
  return text;
}

std::size_t classes_told(const PredictionLayout& layout) {
  return static_cast<std::size_t>(has_columns(layout) ? layout.outputs
                                                      : std::min(layout.top, layout.outputs));
}

/// The classes from the most to the least probable.
std::vector<std::size_t> ranking(const std::vector<double>& probabilities, std::size_t first) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b]
                                                                  : a < b;
                    });
  order.resize(first);
  return order;
}

/// The text before a sample's classes, in both formats.
std::string begin_of(const PredictionLayout& layout, std::int64_t sample, const std::string& name) {
  if (layout.format == PredictionFormat::csv)
    return layout.names ? cat(sample, ",", csv_field(name)) : cat(sample);
  return cat("{\"sample\":", sample, layout.names ? cat(",\"name\":", json_text(name)) : "");
}

}  // namespace

std::vector<double> probabilities_of(std::span<const float> outputs) {
  const double highest = *std::ranges::max_element(outputs);
  std::vector<double> values;
  for (const float output : outputs) values.push_back(std::exp(static_cast<double>(output) - highest));
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
  return values;
}

std::string prediction_header(const PredictionLayout& layout) {
  if (layout.format == PredictionFormat::jsonl) return {};
  std::string text = layout.names ? "sample,name" : "sample";
  for (std::size_t k = 0; k < classes_told(layout); ++k)
    text += has_columns(layout) ? "," + column_name(layout, k)
                                : fmt::format(",class_{},probability_{}", k + 1, k + 1);
  return text + "\n";
}

std::string prediction_line(const PredictionLayout& layout, std::int64_t sample, const std::string& name,
                            std::span<const float> outputs) {
  std::string text = begin_of(layout, sample, name);
  if (layout.format == PredictionFormat::csv && has_columns(layout))
    return text + columns_of(layout, outputs) + "\n";
  if (layout.told != Told::classes)
    return cat(text, ",\"outputs\":[", columns_of(layout, outputs).substr(1), "]}\n");
  const std::vector<double> probabilities = probabilities_of(outputs);
  std::string classes;
  std::string values;
  for (const std::size_t label : ranking(probabilities, classes_told(layout))) {
    const std::string word = class_text(layout, label);
    if (layout.format == PredictionFormat::csv) {
      text += cat(",", csv_field(word), ",", number_text(probabilities[label]));
      continue;
    }
    classes += cat(classes.empty() ? "" : ",", layout.classes.empty() ? word : json_text(word));
    values += cat(values.empty() ? "" : ",", number_text(probabilities[label]));
  }
  if (layout.format == PredictionFormat::csv) return text + "\n";
  return cat(text, ",\"classes\":[", classes, "],\"probabilities\":[", values, "]}\n");
}

std::string unread_line(const PredictionLayout& layout, std::int64_t sample, const std::string& name,
                        const std::string& why) {
  const std::string text = begin_of(layout, sample, name);
  if (layout.format == PredictionFormat::jsonl) return cat(text, ",\"error\":", json_text(why), "}\n");
  return text + std::string((has_columns(layout) ? 1 : 2) * classes_told(layout), ',') + "\n";
}

namespace {

constexpr std::int64_t largest_default_batch = 64;

/// The arguments of a prediction.
struct PredictionTask {
  const PredictArguments& arguments;
  const LoadedCheckpoint& checkpoint;
  const Config& config;
  const std::vector<std::string>& names;  ///< Names of classes; empty: they have numbers only
};

/// The given inputs, as the source of validation. @throws UserError if the deck's kind of data takes only one
DataSourceConfig source_of(const DataConfig& data, const std::vector<std::string>& inputs) {
  const DataReader& reader = reader_of(data.kind);
  if (!data.keys().files)
    throw UserError(
        "the deck's data are random: say what kind the given ones are (data.kind=idx, image-list, criteo or "
        "libsvm)");
  if (!reader.predicts_several && inputs.size() > 1)
    throw UserError(cat("data.kind = \"", data.kind, "\" takes one file at a time, got ", inputs[0], " and ",
                        inputs[1], reader.one_advice));
  DataSourceConfig source;
  source.given = true;
  source.input_array = data.validation.input_array;
  source.images = source.path = inputs.front();
  source.inputs = inputs;
  return source;
}

/// Samples of a batch: the number does not depend on the number of ranks, so that the predictions do not
/// either; at most all samples.
std::int64_t batch_of(const Config& config, std::int64_t samples) {
  std::int64_t batch = config.validation.batch_size;
  if (batch == 0) batch = config.train.batch_size;
  if (batch == 0) batch = std::min(config.train.global_batch_size, largest_default_batch);
  return std::min(batch, samples);
}

Told told_of(const ModelConfig& model) {
  if (model.has_classes()) return Told::classes;
  return model.loss == ModelLoss::binary ? Told::labels : Told::numbers;
}

/// The whole batches that a rank computes.
ValidationShard shard_of(std::int64_t samples, std::int64_t batch, const mpi::Communicator& world) {
  const ValidationShard batches = validation_shard((samples + batch - 1) / batch, world.size(), world.rank());
  return {.begin = std::min(batches.begin * batch, samples), .end = std::min(batches.end * batch, samples)};
}

/// The lines of this rank's samples.
struct Lines {
  std::string text;
  std::vector<std::string> bad;  ///< Why samples cannot be read
};

/// @throws UserError naming the first sample whose outputs are not finite
Lines lines_of(const PredictionTask& task, Inference& inference, ValidationShard shard,
               const PredictionLayout& layout, const std::function<void()>& beat) {
  const Dataset& data = inference.data();
  LoaderOptions options = loader_options(task.config.data);
  options.keep_bad = task.config.data.on_bad_image == OnBadImage::replace;
  Lines lines;
  apply({inference.network(), data, options, inference.sums(), inference.inputs()}, shard,
        [&](const Batch& batch, std::int64_t first) {
          beat();
          const std::span<const float> outputs = inference.outputs(batch);
          const auto classes = static_cast<std::size_t>(layout.outputs);
          for (std::int64_t row = 0; row < batch.valid; ++row) {
            const std::int64_t sample = first + row;
            const std::string name = data.name(sample);
            if (const auto bad = batch.bad.find(row); bad != batch.bad.end()) {
              lines.text += unread_line(layout, sample, name, bad->second);
              lines.bad.push_back(bad->second);
              continue;
            }
            const auto given = outputs.subspan(static_cast<std::size_t>(row) * classes, classes);
            if (!std::ranges::all_of(given, [](float value) { return std::isfinite(value); }))
              throw UserError(cat(task.checkpoint.path, ": its outputs for sample ", sample,
                                  name.empty() ? "" : cat(" (", name, ")"),
                                  " are not finite; `flotilla inspect ", task.checkpoint.path,
                                  "` shows the range of each tensor"));
            lines.text += prediction_line(layout, sample, name, given);
          }
        });
  return lines;
}

/// Collective. The lines of all ranks, in the order of the ranks; the text on rank 0 alone.
Lines gathered(const Lines& mine, const mpi::Communicator& world) {
  const std::vector<char> text = world.gather(std::span<const char>(mine.text));
  Lines all;
  all.text.assign(text.begin(), text.end());
  std::string bad;
  for (const std::string& why : mine.bad) bad += why + '\0';
  for (const std::string& of_rank : world.all_gather(bad)) {
    std::istringstream reasons(of_rank);
    for (std::string why; std::getline(reasons, why, '\0');) all.bad.push_back(why);
  }
  return all;
}

/// Collective.
int predict_watched(const PredictionTask& task, const mpi::Communicator& world,
                    const std::vector<mpi::Place>& places, mpi::Watchdog& watchdog) {
  const auto& [arguments, checkpoint, config, names] = task;
  Inference inference(
      config, checkpoint, {world, places, watchdog},
      [&] {
        if (!world.is_root() || arguments.output.empty()) return;
        check_output_file(arguments.output, {});
        check_outputs({arguments.output}, config, config.data.validation, {checkpoint.path, arguments.deck});
        if (arguments.format == PredictionFormat::csv)
          check_ending(arguments.output, {".csv", ".txt"}, "CSV", "; --format jsonl writes JSON lines");
        else
          check_ending(arguments.output, {".jsonl", ".json", ".txt"}, "JSON lines");
      },
      [&](std::int64_t samples) { return batch_of(config, samples); },
      [&](std::int64_t samples, std::int64_t batch) { return shard_of(samples, batch, world); });
  const std::int64_t samples = inference.data().size();
  const PredictionLayout layout{.format = arguments.format,
                                .told = told_of(config.model),
                                .classes = names,
                                .outputs = config.model.output_width(),
                                .top = std::max<std::int64_t>(1, arguments.top),
                                .all = arguments.all || (arguments.top == 0 && predicts_clicks(config.model)),
                                .names = !inference.data().name(0).empty()};
  std::int64_t batches = 0;
  const Lines mine = lines_of(task, inference, shard_of(samples, inference.network().batch(), world), layout,
                              [&] { watchdog.beat("predicting", checkpoint.state.step, batches++); });
  watchdog.beat("collecting the predictions", checkpoint.state.step);
  const Lines lines = gathered(mine, world);
  agree(world, [&] {
    if (!world.is_root()) return;
    for (const std::string& note : inference.notes()) print_warning(note);
    for (const std::string& why : lines.bad) print_warning(why);
    if (std::ssize(lines.bad) > config.data.max_bad_images)
      throw UserError(cat(lines.bad.size(), " of ", samples,
                          " images could not be read, more than data.max_bad_images = ",
                          config.data.max_bad_images, "; nothing was written"));
    const std::string text = prediction_header(layout) + lines.text;
    if (arguments.output.empty())
      print_line(std::string_view(text).substr(0, text.size() - 1));
    else
      write_text_file_atomically(arguments.output, text);
    print_error_line(cat("flotilla: predicted ", samples - std::ssize(lines.bad), " of ", samples,
                         " samples with ", checkpoint.path,
                         arguments.output.empty() ? "" : cat(" into ", arguments.output)));
  });
  return lines.bad.empty() ? exit_done : exit_bad_samples;
}

/// Collective. `flotilla predict`: the classes of unlabelled samples and their probabilities, in the order of
/// the input. Validation's preprocessing; batches do not depend on the number of ranks.
int predict(const PredictArguments& arguments, const mpi::Communicator& world, FailureHandler& failure) {
  std::vector<std::string> warnings;
  const LoadedCheckpoint checkpoint =
      load_checkpoint_everywhere(arguments.checkpoint, arguments.best, world, warnings);
  LoadedDeck deck = deck_for(checkpoint, arguments.deck, arguments.overrides, "--deck DECK", world);
  const ModelConfig& model = deck.config.model;
  throw_alike([&] {
    if (!model.has_classes() && (arguments.top > 0 || arguments.all))
      throw UserError(cat(arguments.all ? "--all" : "--top", " applies to classes, but ", checkpoint.path,
                          " predicts numbers (model.loss = \"", model.loss,
                          "\"), which are all written: leave it out"));
    deck.config.data.validation = source_of(deck.config.data, arguments.inputs);
  });
  failure.set_step(checkpoint.state.step);
  const std::vector<std::string> names = names_for(checkpoint, deck.config, world);
  if (names.empty() && model.has_classes() && !predicts_clicks(model))
    warnings.push_back(cat(
        checkpoint.path, " keeps no names of classes: they are numbers (data.class_names=FILE names them)"));
  if (world.is_root())
    for (const std::string& warning : warnings) print_warning(warning);
  const PredictionTask task{arguments, checkpoint, deck.config, names};
  JobWatchdog job(deck, world, failure);
  return predict_watched(task, world, job.places(), job.watchdog());
}

}  // namespace

Subcommand predict_command() {
  return SubcommandOf<PredictArguments>{
      .name = "predict",
      .help = "Predict the classes of samples without labels, or their numbers",
      .add_options =
          [](CLI::App& command, PredictArguments& arguments, Positionals& positionals) {
            positionals.add_file(command, "CHECKPOINT",
                                 "File, or a run's folder: its newest good checkpoint");
            positionals.add_file(
                command, "INPUT",
                "Images, folders of them or a list of their paths; or a file of the deck's data.kind: "
                "IDX images, click logs with or without labels");
            positionals.add_overrides(command, "More images or folders; ");
            command.add_flag("--best", arguments.best, best_help);
            command.add_option("--output", arguments.output, "File to write, whole or not at all (stdout)");
            const auto take_format = [&arguments](const std::string& format) {
              arguments.format = format == "csv" ? PredictionFormat::csv : PredictionFormat::jsonl;
            };
            command
                .add_option_function<std::string>("--format", take_format, "csv or jsonl, JSON lines (csv)")
                ->check(CLI::IsMember({"csv", "jsonl"}));
            CLI::Option* top = command.add_option(
                "--top", arguments.top, "Most probable classes of each sample (1; of click data: both)");
            top->check(CLI::Range(1, 1000000000));
            command.add_flag("--all", arguments.all, "All classes; in CSV a column for each")->excludes(top);
            command.add_option("--deck", arguments.deck, "Deck to use instead of the checkpoint's own");
          },
      .take_positionals =
          [](PredictArguments& arguments, Positionals& positionals) {
            if (positionals.files.size() < 2)
              throw UserError(cat("CHECKPOINT and INPUT are both needed; ", positionals.hint));
            arguments.checkpoint = positionals.take_file("CHECKPOINT");
            arguments.inputs = positionals.files;
            arguments.overrides = positionals.overrides;
          },
      .run_on_ranks = predict,
  };
}

}  // namespace flotilla
