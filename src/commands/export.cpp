// SPDX-License-Identifier: Apache-2.0
#include "src/commands/export.hpp"

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/commands/export_onnx.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/subcommand.hpp"
#include "src/observe/print.hpp"

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

}  // namespace

Snapshot read_model(const std::string& path, bool average) {
  Snapshot model = average ? read_average(path) : read_weights(path);
  if (model.state.deck.empty())
    throw UserError(cat(
        "'", path, "' has no deck, so it is not a checkpoint of a run; a file of weights needs no export"));
  return model;
}

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
