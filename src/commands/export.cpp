// SPDX-License-Identifier: Apache-2.0
#include "src/commands/export.hpp"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/subcommand.hpp"
#include "src/commands/version.hpp"
#include "src/config/deck.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/found.hpp"
#include "src/data/images/image_dataset.hpp"
#include "src/data/images/image_transform.hpp"
#include "src/data/input_form.hpp"
#include "src/observe/print.hpp"
#include "src/onnx/model_graph.hpp"

namespace flotilla {

namespace {

/// The averaged weights of a checkpoint in the place of its model.
Snapshot read_average(const std::string& path) {
  constexpr std::string_view average = "strategy/average_";
  Snapshot model = CheckpointFile(path, CheckpointFile::Content::everything).all();
  std::erase_if(model.tensors,
                [&](const CheckpointTensor& tensor) { return !tensor.path.starts_with(average); });
  if (model.tensors.empty())
    throw UserError(
        cat("'", path, "' has no averaged weights: train with train.average_decay, or leave out --average"));
  for (CheckpointTensor& tensor : model.tensors) tensor.path.erase(0, average.size());
  return model;
}

/// Parameters and statistics of the checkpoint of a run.
/// @param average as ExportArguments::average
/// @throws UserError if it cannot be read, has no averaged weights or no deck
Snapshot read_model(const std::string& path, bool average) {
  Snapshot model = average ? read_average(path) : read_weights(path);
  if (model.state.deck.empty())
    throw UserError(cat(
        "'", path, "' has no deck, so it is not a checkpoint of a run; a file of weights needs no export"));
  return model;
}

/// The samples that the network of a checkpoint takes; of a checkpoint that does not keep their form that of
/// the data that its deck names.
SampleForm form_of(const DataConfig& data, const CheckpointState& state) {
  const auto kept = state.choices.find("model.inputs");
  if (kept != state.choices.end())
    return {.shape = shape_in(kept->second), .bytes = kept->second.starts_with("uint8 ")};
  const auto form = reader_of(data.kind).form;
  const DatasetUse use{.training = !data.validation.given};
  const DataSourceConfig& source = use.training ? data.train : data.validation;
  return form == nullptr ? SampleForm() : form({.data = data, .source = source, .use = use});
}

/// The scaling of images of bytes; empty for other samples.
std::optional<ByteScaling> scaling_of_bytes(const DataConfig& data, const SampleForm& form) {
  if (data.has_images()) return normalization(transform_spec(data));
  ByteScaling scaling;
  if (!form.bytes || form.shape.rank() != 3 || form.shape[0] > std::ssize(scaling.factor)) return {};
  return SampleScaling::of_pixels(form.shape[0], scaling_of(data, true)).bytes(form.shape[0]);
}

/// Metadata for programs that use the model. @param scaled the model scales its inputs itself
std::map<std::string, std::string> metadata_of(const Config& config, const CheckpointState& state, bool bytes,
                                               bool scaled) {
  std::map<std::string, std::string> all = {{"step", cat(state.step)}};
  const auto labels = state.choices.find("data.class_names");
  if (labels != state.choices.end() && !labels->second.empty()) all["labels"] = labels->second;
  const FoundInData& found = config.data.found;
  if (!found.columns.empty())
    all.merge(std::map<std::string, std::string>{{"columns", nlohmann::json(found.columns).dump()},
                                                 {"categories", nlohmann::json(found.categories).dump()},
                                                 {"fills", nlohmann::json(found.fills).dump()}});
  const GivenScaling scale = scaling_of(config.data, bytes || config.data.pixel_scale_given);
  if (scale.mean.empty() || scaled) return all;
  all["mean"] = fmt::format("[{}]", fmt::join(scale.mean, ", "));
  all["std"] = fmt::format("[{}]", fmt::join(scale.std, ", "));
  return all;
}

/// Writes the model of a checkpoint to the ONNX file `arguments.output`, atomically, replacing what was there
/// (docs/export.md). Damaged checkpoints of a folder that are skipped are reported to `on_damaged`.
/// @returns the path of the checkpoint that was used. @throws UserError, also in a build without ONNX
std::string export_onnx(const ExportArguments& arguments,
                        const std::function<void(const std::string&)>& on_damaged) {
  check_onnx();
  std::string path = checkpoint_at(arguments.checkpoint, on_damaged);
  check_output_file(arguments.output, {path});
  const Snapshot model = read_model(path, arguments.average);
  Config config = load_deck({.path = path, .text = model.state.deck, .overrides = {}, .saved = true}).config;
  take_found(model.state.choices, config);
  OnnxForm form{.keep_batch_norm = arguments.keep_batch_norm};
  SampleForm samples{.shape = {}, .bytes = false};
  const bool takes_rows = config.model.kind == "mlp" || config.model.has_embeddings();
  if (!takes_rows || arguments.with_preprocessing || model.state.choices.contains("model.inputs"))
    samples = form_of(config.data, model.state);
  form.sample = samples.shape;
  if (arguments.with_preprocessing) {
    form.preprocessing = scaling_of_bytes(config.data, samples);
    if (!form.preprocessing)
      throw UserError(cat("--with-preprocessing is for images, and the samples of ", path,
                          " are of data.kind = \"", config.data.kind, "\": leave it out"));
  }
  if (arguments.with_scaling) {
    const GivenScaling scale = scaling_of(config.data, false);
    form.mean = scale.mean;
    form.deviation = scale.std;
    if (samples.bytes || arguments.with_preprocessing || form.mean.empty())
      throw UserError(
          cat("--with-scaling is for numbers that data.input_mean and data.input_std scale, which those of ",
              path, " are not: leave it out", samples.bytes ? ", or take --with-preprocessing" : ""));
  }
  OnnxGraph graph = make_onnx_graph(config, model, form);
  graph.metadata = metadata_of(config, model.state, samples.bytes, arguments.with_scaling);
  write_onnx(arguments.output, graph, version_line());
  return path;
}

}  // namespace

std::string export_checkpoint(const ExportArguments& given,
                              const std::function<void(const std::string&)>& on_damaged) {
  ExportArguments arguments = given;
  if (given.best) arguments.checkpoint = best_checkpoint_of(given.checkpoint);
  if (arguments.output.ends_with(".onnx")) return export_onnx(arguments, on_damaged);
  check_ending(
      arguments.output, {".h5", ".hdf5"}, "an HDF5 file",
      "; an ONNX model ends in .onnx, and python3 scripts/torch_to_hdf5.py --back model.h5 model.pt makes a "
      "file of PyTorch of an HDF5 file");
  if (arguments.keep_batch_norm || arguments.with_preprocessing || arguments.with_scaling)
    throw UserError(cat(arguments.keep_batch_norm      ? "--keep-batch-norm"
                        : arguments.with_preprocessing ? "--with-preprocessing"
                                                       : "--with-scaling",
                        " is of ONNX models: give an output that ends in .onnx, got ", arguments.output));
  return export_model(arguments.checkpoint, arguments.output, on_damaged, arguments.average);
}

std::string export_model(const std::string& checkpoint_or_folder, const std::string& out,
                         const std::function<void(const std::string&)>& on_damaged, bool average) {
  const std::string path = checkpoint_at(checkpoint_or_folder, on_damaged);
  check_output_file(out, {path});
  Snapshot model = read_model(path, average);
  model.state.inference_only = true;
  model.state.numbers.clear();  // these and the parts are for going on
  model.state.parts.clear();
  MergedRows rows(open_rows(path, model.state));
  model.state.server_parts.clear();
  RowFileWriter file(out, rows.tables(), model.tensors);
  for (std::size_t i = 0; i < model.tensors.size(); ++i) file.write_tensor(i, model.of(model.tensors[i]));
  for (std::size_t table = 0; table < rows.tables().size(); ++table)
    for (RowPiece piece = rows.next(table); !piece.keys.empty(); piece = rows.next(table))
      file.write(table, piece);
  file.complete(model.state);
  file.give_name();
  return path;
}

Subcommand export_command() {
  return SubcommandOf<ExportArguments>{
      .name = "export",
      .help = "Write a checkpoint's model without the state of its training",
      .add_options =
          [](CLI::App& command, ExportArguments& arguments, Positionals& /*positionals*/) {
            command.add_option("CHECKPOINT", arguments.checkpoint, "File or a run's folder")->required();
            command
                .add_option("OUT", arguments.output,
                            "What to write: an HDF5 file (.h5, .hdf5) or an ONNX model (.onnx)")
                ->required();
            command.add_flag("--best", arguments.best, best_help);
            command.add_flag("--average", arguments.average, "The averaged weights (train.average_decay)");
            command.add_flag(
                "--keep-batch-norm", arguments.keep_batch_norm,
                "ONNX: batch norms as nodes of their own instead of folded into the weights before them");
            command.add_flag("--with-preprocessing", arguments.with_preprocessing,
                             "ONNX: takes images of bytes (N,H,W,C) and gives probabilities");
            command.add_flag("--with-scaling", arguments.with_scaling,
                             "ONNX: takes numbers as they are stored, and scales them as in training");
          },
      .run_alone = [](const ExportArguments& arguments) -> int {
        const std::string from = export_checkpoint(arguments, print_warning);
        if (const std::string note = better_checkpoint_note(arguments.checkpoint, from); !note.empty())
          print_warning(note);
        print_line(cat("exported ", from, " to ", arguments.output));
        return exit_done;
      },
  };
}

}  // namespace flotilla
