// SPDX-License-Identifier: Apache-2.0
#include "src/commands/command_options.hpp"

#include <charconv>
#include <limits>
#include <map>
#include <string_view>
#include <system_error>

#include "kernels/error.hpp"

namespace flotilla {
namespace {

constexpr const char* override_help =
    "key.path=value, laid over the deck: train.epochs=3 model.widths=64,64 (for each key the last one holds)";

// Overrides and the deck may come in any order: command_line.cpp tells them apart.
void add_deck(CLI::App& command, Positionals& positionals, const char* help, bool required) {
  command.add_option("DECK", positionals.first, help)->required(required);
  command.add_option("OVERRIDES", positionals.others, override_help);
}

template <Choice E>
CLI::Option* add_choice(CLI::App& command, const char* name, E& choice_of, const char* help,
                        const std::vector<std::string>& words) {
  const auto take = [&choice_of](const std::string& word) { choice_of = choice<E>(word); };
  return command.add_option_function<std::string>(name, take, help)->check(CLI::IsMember(words));
}

}  // namespace

void add_options(CLI::App& command, TrainArguments& arguments, Positionals& positionals) {
  add_deck(command, positionals, "TOML file of the run; inputs/reference.toml explains every key", true);
  command.add_flag("--check", arguments.check,
                   "Construct everything, print the resolved deck, the memory it takes and the steps per "
                   "epoch, and stop");
}

void add_options(CLI::App& command, CompareArguments& /*arguments*/, Positionals& positionals) {
  command
      .add_option("PLAN", positionals.first,
                  "TOML file: a deck and what each run sets in it (docs/compare.md)")
      ->required();
  command.add_option("OVERRIDES", positionals.others, override_help);
}

void add_options(CLI::App& command, EvaluateArguments& arguments, Positionals& positionals) {
  command
      .add_option("CHECKPOINT", arguments.checkpoint, "File, or a run's folder: its newest good checkpoint")
      ->required();
  add_deck(command, positionals, "Deck to use instead of the checkpoint's own", false);
  command.add_option("--vectors", arguments.vectors, "HDF5 file for the outputs of every sample");
  command.add_flag("--per-class", arguments.per_class,
                   "Print samples, top-1 accuracy (recall) and precision of each class");
  command.add_flag("--confusion", arguments.confusion,
                   "Print how many samples of each class were taken for each class");
  CLI::Option* json = command.add_flag("--json", arguments.json,
                                       "Print one JSON object instead, with classes and confusion matrix");
  command.add_option("--output", arguments.output, "File for the JSON, beside the usual lines")->needs(json);
}

void add_options(CLI::App& command, PredictArguments& arguments, Positionals& positionals) {
  command
      .add_option("CHECKPOINT", arguments.checkpoint, "File, or a run's folder: its newest good checkpoint")
      ->required();
  command
      .add_option("INPUT", positionals.first,
                  "Images, folders of them or a list of their paths; or a file of the deck's data.kind: "
                  "IDX images, click logs with or without labels")
      ->required();
  command.add_option("OVERRIDES", positionals.others, cat("More images or folders; ", override_help));
  command.add_option("--output", arguments.output, "File to write, whole or not at all (stdout)");
  const auto take_format = [&arguments](const std::string& format) {
    arguments.format = format == "csv" ? PredictionFormat::csv : PredictionFormat::jsonl;
  };
  command.add_option_function<std::string>("--format", take_format, "csv or jsonl, JSON lines (csv)")
      ->check(CLI::IsMember({"csv", "jsonl"}));
  CLI::Option* top = command.add_option("--top", arguments.top,
                                        "Most probable classes of each sample (1; of click data: both)");
  top->check(CLI::Range(1, 1000000000));
  command.add_flag("--all", arguments.all, "All classes; in CSV a column for each")->excludes(top);
  command.add_option("--deck", arguments.deck, "Deck to use instead of the checkpoint's own");
}

void add_options(CLI::App& command, InspectArguments& arguments) {
  command
      .add_option(
          "FILE", arguments.checkpoint,
          "Checkpoint, exported model, a run's folder, or data: HDF5, .npy, .npz, IDX, CIFAR's .bin; of "
          "images, tar files, lists and logs it says which key reads them")
      ->required();
  command.add_flag("--json", arguments.json, "As JSON");
  command.add_flag("--deck", arguments.show_deck, "Print the deck in it as well");
}

void add_options(CLI::App& command, ExportArguments& arguments) {
  command.add_option("CHECKPOINT", arguments.checkpoint, "File or a run's folder")->required();
  command
      .add_option("OUT", arguments.output,
                  "What to write: an HDF5 file (.h5, .hdf5) or an ONNX model (.onnx)")
      ->required();
  command.add_flag("--average", arguments.average, "The averaged weights (train.average_decay)");
  command.add_flag("--keep-batch-norm", arguments.keep_batch_norm,
                   "ONNX: batch norms as nodes of their own instead of folded into the weights before them");
  command.add_flag("--with-preprocessing", arguments.with_preprocessing,
                   "ONNX: takes images of bytes (N,H,W,C) and gives probabilities");
}

void add_options(CLI::App& command, WatchArguments& arguments) {
  command.add_option("RUN", arguments.folder, "The run's folder (run.output); it need not be there yet")
      ->required();
  command.add_flag("--once", arguments.once, "Print where the run stands, and end");
}

void add_options(CLI::App& command, KeysArguments& arguments) {
  command.add_option("PREFIX", arguments.what,
                     "A table, a key or a name: strategy, train.epochs, learning_rate (all, a line each)");
}

void add_options(CLI::App& command, ReportArguments& arguments) {
  command.add_option("RUN", arguments.runs, "Folders of runs, also of running ones")->required();
  command.add_option("--output", arguments.output,
                     "The page (RUN/report.html; of several runs report.html in the current folder)");
  command.add_option("--svg", arguments.svg, "Folder for each chart as a picture");
  command.add_option("--csv", arguments.csv, "Folder for the steps and validations of each run as tables");
}

void add_options(CLI::App& command, BenchAllReduceArguments& arguments, SizeTexts& sizes) {
  CLI::Option* bytes = command.add_option("--bytes", sizes.bytes, "One size: 512, 1K, 64M");
  command.add_option("--min", sizes.min, "Smallest size (1K)")->excludes(bytes);
  command.add_option("--max", sizes.max, "Largest size (256M)")->excludes(bytes);
  command.add_flag("--in-place", arguments.in_place, "Reduce in place only");
  add_choice(command, "--device", arguments.device,
             "In whose memory the data lies: cpu, cuda, reference (cpu)", {"cpu", "cuda", "reference"});
  command.add_option("--ranks-per-group", arguments.ranks_per_group,
                     "Of those in groups (0: a group per host)");
  command.add_option("--communicators", arguments.communicators,
                     "Also with so many all-reduces of a part at a time (1)");
  command.add_option("--json", arguments.json, "File for the rows as JSON");
}

void add_options(CLI::App& command, BenchStepArguments& arguments, Positionals& positionals) {
  add_deck(command, positionals, "TOML file of the run", true);
  command.add_option("--checkpoint-every", arguments.checkpoint_every, "Save every so many steps (0: never)")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--steps", arguments.steps, "Steps measured (200)")->check(CLI::Range(1, 1000000000));
  command.add_flag("--operations", arguments.operations, "List every operation, not only their kinds");
  command.add_option("--json", arguments.json, "File for the figures as JSON");
}

void add_options(CLI::App& command, BenchInputArguments& arguments, Positionals& positionals) {
  add_deck(command, positionals, "TOML file whose training data to read; not with --list", false);
  CLI::Option* list =
      command.add_option("--list", arguments.list, "List of images: path, white space, label");
  command
      .add_option("--root", arguments.root, "Folder that the list's paths begin at (default: by its name)")
      ->needs(list);
  command.add_option("--threads", arguments.threads, "Threads of each rank (1)")
      ->check(CLI::Range(1, 1024))
      ->needs(list);
  command.add_option("--size", arguments.size, "Height and width of a sample (224)")
      ->check(CLI::Range(1, 16384))
      ->needs(list);
  add_choice(command, "--filter", arguments.filter, "bilinear or antialias (bilinear)",
             {"bilinear", "antialias"})
      ->needs(list);
  add_choice(command, "--device", arguments.device,
             "For whose memory: cuda and reference take bytes where samples are bytes (cpu)",
             {"cpu", "cuda", "reference"})
      ->needs(list);
  command.add_flag("--no-decode", arguments.no_decode,
                   "Read the images, but do not decode them: what disk and file system allow");
  CLI::Option* seconds = command.add_option("--seconds", arguments.seconds, "How long to measure (5)");
  seconds->check(CLI::PositiveNumber);
  command.add_option("--images", arguments.images, "How many images to measure, instead of seconds")
      ->check(CLI::Range(1, 1000000000))
      ->excludes(seconds);
  command.add_option("--json", arguments.json, "File for the figures as JSON");
}

void add_options(CLI::App& command, MakeDataArguments& arguments) {
  const CLI::Range rows(std::int64_t{1}, std::int64_t{1000000000000});
  command.add_option("--rows", arguments.rows, "Lines to write")->required()->check(rows);
  command.add_option("--output", arguments.output, "File to write")->required();
  command
      .add_option("--valid-rows", arguments.validation_rows,
                  "Lines of a second file, for validation: FILE with .valid before its ending")
      ->check(rows);
  command.add_option("--seed", arguments.seed, "Other seeds make other data (1)")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--vocabulary", arguments.vocabulary, "Most categories of a slot (100000)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4294967295}));
  command.add_option("--truth", arguments.truth, "File for the true probability of each line");
}

void add_options(CLI::App& command, MakeBoreholeArguments& arguments) {
  const CLI::Range rows(std::int64_t{1}, std::int64_t{1000000000000});
  command.add_option("--rows", arguments.rows, "Samples to write")->required()->check(rows);
  command.add_option("--output", arguments.output, "HDF5 file to write")->required();
  command
      .add_option("--valid-rows", arguments.validation_rows,
                  "Other samples, of a second file for validation: FILE with .valid before its ending")
      ->check(rows);
  command.add_option("--seed", arguments.seed, "Other seeds make other data (1)")
      ->check(CLI::NonNegativeNumber);
}

void add_options(CLI::App& command, PackArguments& arguments) {
  command
      .add_option(
          "LIST", arguments.list,
          "List of images: path, white space, label; or a folder that has a folder of images per class")
      ->required();
  command.add_option("--output", arguments.output, "Folder for the shards")->required();
  command.add_option("--root", arguments.root,
                     "Folder that the list's paths begin at (default: by its name)");
  command.add_option("--name", arguments.name, "Shards are NAME-000000.tar … (the list's name)")
      ->check([](const std::string& name) {
        return name.find('/') == name.npos ? std::string() : std::string("a name without a folder is needed");
      });
  command.add_option("--shard-mb", arguments.shard_mb, "Size of a shard, MiB, at most (256)")
      ->check(CLI::Range(1, 1048576));
}

std::int64_t bytes_from_text(const std::string& text) {
  static const std::map<std::string_view, std::int64_t> units = {
      {"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}};
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (rest.ends_with("iB") && rest.size() == 3) rest.remove_suffix(2);
  if (rest.ends_with("B")) rest.remove_suffix(1);
  const auto unit = units.find(rest);
  if (error != std::errc{} || unit == units.end() || number <= 0 ||
      number > std::numeric_limits<std::int64_t>::max() / unit->second) {
    throw UserError(cat("a size must be a positive number of bytes, as 512, 1K or 64M, got ", text));
  }
  return number * unit->second;
}

}  // namespace flotilla
