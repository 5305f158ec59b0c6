// SPDX-License-Identifier: Apache-2.0
#include "src/commands/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"
#include "src/commands/size_text.hpp"
#include "src/config/keys.hpp"
#include "src/config/values.hpp"

namespace flotilla {
namespace {

constexpr const char* override_help =
    "key.path=value, laid over the deck: train.epochs=3 model.widths=64,64 (for each key the last one holds)";

/// "train.epochs=3", in contrast to a file's path; a file with such a name is written with "./" before it.
bool is_override(const std::string& text) {
  const auto equals = text.find('=');
  return equals != std::string::npos && text.find('/') > equals;
}

/// @throws UserError for a path that is not UTF-8. What is wrong with an override is told with its key, when
/// the deck is read.
void check_is_text(const std::string& argument) {
  const bool is_option = argument.starts_with('-');
  if (config::is_utf8(argument) || (is_override(argument) && !is_option)) return;
  throw UserError(
      cat("the argument ", config::quoted(argument),
          " is not UTF-8, as decks, checkpoints and metrics are: rename that file or folder, or give "
          "another path"));
}

/// The command line while it is parsed: the options that CLI11 fills, and the positionals that it cannot
/// distinguish.
class Parser {
 public:
  Parser(const std::string& program, const std::string& version_text) {
    app_.name(std::filesystem::path(program).filename().string());
    app_.set_version_flag("--version", version_text, "Print the versions of what was built in");
    app_.require_subcommand(1);
    add_train();
    add_evaluate();
    add_predict();
    add_inspect();
    add_export();
    add_bench();
    add_make_data();
  }

  std::variant<CommandLine, PrintedText> parse(const std::vector<std::string>& arguments) {
    std::ranges::for_each(arguments, check_is_text);
    try {
      app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      return PrintedText{app_.help()};
    } catch (const CLI::CallForVersion& version) {
      return PrintedText{std::string(version.what()) + "\n"};
    } catch (const CLI::RequiredError& error) {
      refuse_missing_command();
      throw UserError(cat(error.what(), "; see ", used_command(), " --help"));
    } catch (const CLI::ParseError& error) {
      refuse_key_as_option(arguments);
      throw UserError(cat(error.what(), "; see ", used_command(), " --help"));
    }
    return chosen_();
  }

 private:
  /// @param result the command line, once all is parsed
  CLI::App* add_command(CLI::App& parent, const char* name, const char* help,
                        std::function<CommandLine()> result) {
    CLI::App* added = parent.add_subcommand(name, help);
    added->callback([this, result = std::move(result)] { chosen_ = result; });
    return added;
  }

  void add_deck(CLI::App& command, const char* help, bool required) {
    // Overrides and the deck may come in any order: take_positionals() distinguishes them.
    command.add_option("DECK", first_, help)->required(required);
    command.add_option("OVERRIDES", others_, override_help);
  }

  template <Choice E>
  static CLI::Option* add_choice(CLI::App& command, const char* name, E& choice_of, const char* help,
                                 const std::vector<std::string>& words) {
    const auto take = [&choice_of](const std::string& word) { choice_of = choice<E>(word); };
    return command.add_option_function<std::string>(name, take, help)->check(CLI::IsMember(words));
  }

  void add_train() {
    CLI::App* train =
        add_command(app_, "train", "Train the network of a deck", [this] { return with_deck(train_, true); });
    add_deck(*train, "TOML file of the run; inputs/reference.toml explains every key", true);
    train->add_flag("--check", train_.check,
                    "Construct everything, print the resolved deck, the memory it takes and the steps per "
                    "epoch, and stop");
  }

  void add_evaluate() {
    CLI::App* evaluate = add_command(app_, "evaluate", "Evaluate a checkpoint on validation data",
                                     [this] { return with_deck(evaluate_, false); });
    evaluate
        ->add_option("CHECKPOINT", evaluate_.checkpoint,
                     "File, or a run's folder: its newest good checkpoint")
        ->required();
    add_deck(*evaluate, "Deck to use instead of the checkpoint's own", false);
    evaluate->add_option("--vectors", evaluate_.vectors, "HDF5 file for the outputs of every sample");
    evaluate->add_flag("--per-class", evaluate_.per_class,
                       "Print samples, top-1 accuracy (recall) and precision of each class");
    evaluate->add_flag("--confusion", evaluate_.confusion,
                       "Print how many samples of each class were taken for each class");
    CLI::Option* json = evaluate->add_flag(
        "--json", evaluate_.json, "Print one JSON object instead, with classes and confusion matrix");
    evaluate->add_option("--output", evaluate_.output, "File for the JSON, beside the usual lines")
        ->needs(json);
  }

  void add_predict() {
    CLI::App* command = add_command(app_, "predict", "Predict the classes of samples without labels",
                                    [this] { return with_inputs(); });
    command
        ->add_option("CHECKPOINT", predict_.checkpoint, "File, or a run's folder: its newest good checkpoint")
        ->required();
    command
        ->add_option("INPUT", first_,
                     "Images, folders of them or a list of their paths; or a file of the deck's data.kind: "
                     "IDX images, click logs with or without labels")
        ->required();
    command->add_option("OVERRIDES", others_, cat("More images or folders; ", override_help));
    command->add_option("--output", predict_.output, "File to write, whole or not at all (stdout)");
    const auto take_format = [this](const std::string& format) {
      predict_.format = format == "csv" ? PredictionFormat::csv : PredictionFormat::jsonl;
    };
    command->add_option_function<std::string>("--format", take_format, "csv or jsonl, JSON lines (csv)")
        ->check(CLI::IsMember({"csv", "jsonl"}));
    CLI::Option* top = command->add_option("--top", predict_.top,
                                           "Most probable classes of each sample (1; of click data: both)");
    top->check(CLI::Range(1, 1000000000));
    command->add_flag("--all", predict_.all, "All classes; in CSV a column for each")->excludes(top);
    command->add_option("--deck", predict_.deck, "Deck to use instead of the checkpoint's own");
  }

  void add_inspect() {
    CLI::App* inspect =
        add_command(app_, "inspect", "Print what a checkpoint holds", [this] { return inspect_; });
    inspect->add_option("FILE", inspect_.checkpoint, "Checkpoint, exported model or a run's folder")
        ->required();
    inspect->add_flag("--json", inspect_.json, "As JSON");
    inspect->add_flag("--deck", inspect_.show_deck, "Print the deck in it as well");
  }

  void add_export() {
    CLI::App* exporting =
        add_command(app_, "export", "Write a checkpoint's model without the state of its training",
                    [this] { return export_; });
    exporting->add_option("CHECKPOINT", export_.checkpoint, "File or a run's folder")->required();
    exporting->add_option("OUT", export_.output, "HDF5 file to write")->required();
    exporting->add_flag("--average", export_.average, "The averaged weights (train.average_decay)");
  }

  void add_bench() {
    CLI::App* bench = app_.add_subcommand("bench", "Measure parts of Flotilla on this machine");
    bench->require_subcommand(1);
    CLI::App* all_reduce = add_command(*bench, "all-reduce", "Every all-reduce there is, over message sizes",
                                       [this] { return with_sizes(); });
    CLI::Option* bytes = all_reduce->add_option("--bytes", bytes_, "One size: 512, 1K, 64M");
    all_reduce->add_option("--min", min_, "Smallest size (1K)")->excludes(bytes);
    all_reduce->add_option("--max", max_, "Largest size (256M)")->excludes(bytes);
    all_reduce->add_flag("--in-place", bench_all_reduce_.in_place, "Reduce in place only");
    add_choice(*all_reduce, "--device", bench_all_reduce_.device,
               "In whose memory the data lies: cpu, cuda, reference (cpu)", {"cpu", "cuda", "reference"});
    all_reduce->add_option("--ranks-per-group", bench_all_reduce_.ranks_per_group,
                           "Of those in groups (0: a group per host)");
    all_reduce->add_option("--communicators", bench_all_reduce_.communicators,
                           "Also with so many all-reduces of a part at a time (1)");
    all_reduce->add_option("--json", bench_all_reduce_.json, "File for the rows as JSON");

    add_bench_input(*bench);
    CLI::App* step = add_command(*bench, "step", "A training step and its phases",
                                 [this] { return with_deck(bench_step_, true); });
    add_deck(*step, "TOML file of the run", true);
    step->add_option("--checkpoint-every", bench_step_.checkpoint_every,
                     "Save every so many steps (0: never)")
        ->check(CLI::NonNegativeNumber);
    step->add_option("--steps", bench_step_.steps, "Steps measured (200)")->check(CLI::Range(1, 1000000000));
    step->add_flag("--operations", bench_step_.operations, "List every operation, not only their kinds");
    step->add_option("--json", bench_step_.json, "File for the figures as JSON");
  }

  void add_bench_input(CLI::App& bench) {
    CLI::App* input = add_command(bench, "input",
                                  "Training samples per second that the loader hands over, of a list of "
                                  "images or of a deck",
                                  [this] { return with_list_or_deck(); });
    add_deck(*input, "TOML file whose training data to read; not with --list", false);
    CLI::Option* list =
        input->add_option("--list", bench_input_.list, "List of images: path, white space, label");
    input
        ->add_option("--root", bench_input_.root,
                     "Folder that the list's paths begin at (default: by its name)")
        ->needs(list);
    input->add_option("--threads", bench_input_.threads, "Threads of each rank (1)")
        ->check(CLI::Range(1, 1024))
        ->needs(list);
    input->add_option("--size", bench_input_.size, "Height and width of a sample (224)")
        ->check(CLI::Range(1, 16384))
        ->needs(list);
    add_choice(*input, "--filter", bench_input_.filter, "bilinear or antialias (bilinear)",
               {"bilinear", "antialias"})
        ->needs(list);
    add_choice(*input, "--device", bench_input_.device,
               "For whose memory: cuda and reference take bytes where samples are bytes (cpu)",
               {"cpu", "cuda", "reference"})
        ->needs(list);
    CLI::Option* seconds = input->add_option("--seconds", bench_input_.seconds, "How long to measure (5)");
    seconds->check(CLI::PositiveNumber);
    input->add_option("--images", bench_input_.images, "How many images to measure, instead of seconds")
        ->check(CLI::Range(1, 1000000000))
        ->excludes(seconds);
    input->add_option("--json", bench_input_.json, "File for the figures as JSON");
  }

  void add_make_data() {
    CLI::App* make =
        app_.add_subcommand("make-data", "Write synthetic data of which the best prediction is known");
    make->require_subcommand(1);
    CLI::App* criteo =
        add_command(*make, "criteo", "Click logs in Criteo's layout: a label, 13 numbers, 26 categories",
                    [this] { return make_data_; });
    const CLI::Range rows(std::int64_t{1}, std::int64_t{1000000000000});
    criteo->add_option("--rows", make_data_.rows, "Lines to write")->required()->check(rows);
    criteo->add_option("--output", make_data_.output, "File to write")->required();
    criteo
        ->add_option("--valid-rows", make_data_.validation_rows,
                     "Lines of a second file, for validation: FILE with .valid before its ending")
        ->check(rows);
    criteo->add_option("--seed", make_data_.seed, "Other seeds make other data (1)")
        ->check(CLI::NonNegativeNumber);
    criteo->add_option("--vocabulary", make_data_.vocabulary, "Most categories of a slot (100000)")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{4294967295}));
    criteo->add_option("--truth", make_data_.truth, "File for the true probability of each line");
  }

  /// The innermost command that was understood.
  const CLI::App& used() const {
    const CLI::App* command = &app_;
    while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
    return *command;
  }

  /// "flotilla bench step": as far as the arguments were understood.
  std::string used_command() const {
    std::string text = used().get_name();
    for (const CLI::App* parent = used().get_parent(); parent != nullptr; parent = parent->get_parent()) {
      text = parent->get_name() + " " + text;
    }
    return text;
  }

  /// CLI11 says only that "a subcommand is required".
  void refuse_missing_command() const {
    const auto known = used().get_subcommands([](const CLI::App*) { return true; });
    if (known.empty()) return;
    const std::vector<std::string> rest = app_.remaining(true);
    std::string text =
        rest.empty() ? "a command is missing" : cat("there is no command \"", rest.front(), "\"");
    for (std::size_t i = 0; i < known.size(); ++i)
      text += (i == 0 ? "; one of " : ", ") + known[i]->get_name();
    throw UserError(cat(text, " is needed; see ", used_command(), " --help"));
  }

  /// "--epochs 3", as other programs have it, of a command that takes a deck.
  void refuse_key_as_option(const std::vector<std::string>& arguments) const {
    const std::vector<std::string> rest = app_.remaining(true);
    if (rest.empty() || !rest.front().starts_with("--") || used().get_option_no_throw("OVERRIDES") == nullptr)
      return;
    const std::size_t equals = rest.front().find('=');
    std::string name = rest.front().substr(2, equals - 2);
    std::ranges::replace(name, '-', '_');
    const auto next = std::next(std::ranges::find(arguments, rest.front()));
    std::string value = "VALUE";
    if (equals != std::string::npos)
      value = rest.front().substr(equals + 1);
    else if (next != arguments.end() && !next->starts_with('-') && !is_override(*next))
      value = *next;
    std::string keys;
    for (const config::Key& key : config::all_keys())
      if (key.name() == name) keys += cat(keys.empty() ? "" : " or ", key.path, "=", value);
    throw UserError(cat("there is no option ", rest.front().substr(0, equals), "; ",
                        keys.empty()
                            ? "a key of the deck is set by key.path=value (inputs/reference.toml lists them)"
                            : "write " + keys,
                        ", or see ", used_command(), " --help"));
  }

  PredictArguments with_inputs() const {
    PredictArguments arguments = predict_;
    std::vector<std::string> written = {arguments.checkpoint, first_};
    written.insert(written.end(), others_.begin(), others_.end());
    for (const std::string& text : written)
      (is_override(text) ? arguments.overrides : arguments.inputs).push_back(text);
    if (arguments.inputs.size() < 2)
      throw UserError(cat("CHECKPOINT and INPUT are both needed; see ", used_command(), " --help"));
    arguments.checkpoint = arguments.inputs.front();
    arguments.inputs.erase(arguments.inputs.begin());
    return arguments;
  }

  /// The command's arguments with what stands without an option: overrides, the checkpoint and the deck.
  template <class Arguments>
  Arguments with_deck(Arguments arguments, bool required) const {
    std::vector<std::string> files;
    std::vector<std::string> written = {first_};
    constexpr bool has_checkpoint = requires {
      arguments.checkpoint;
    };
    if constexpr (has_checkpoint) written.insert(written.begin(), arguments.checkpoint);
    written.insert(written.end(), others_.begin(), others_.end());
    for (const std::string& text : written) {
      if (!text.empty()) (is_override(text) ? arguments.overrides : files).push_back(text);
    }
    if constexpr (has_checkpoint) {
      if (files.empty()) throw UserError(cat("CHECKPOINT is missing; see ", used_command(), " --help"));
      arguments.checkpoint = files.front();
      files.erase(files.begin());
    }
    if (files.size() > 1) {
      throw UserError(cat("one deck is used at a time, got ", files[0], " and ", files[1],
                          "; an override is written key.path=value"));
    }
    if (required && files.empty()) throw UserError(cat("DECK is missing; see ", used_command(), " --help"));
    if (!files.empty()) arguments.deck = files.front();
    return arguments;
  }

  BenchInputArguments with_list_or_deck() const {
    BenchInputArguments arguments = with_deck(bench_input_, false);
    if (arguments.list.empty() == arguments.deck.empty())
      throw UserError("bench input reads the images of a DECK or of a --list FILE; give one of them");
    if (!arguments.list.empty() && !arguments.overrides.empty())
      throw UserError(cat(arguments.overrides.front(), " needs a DECK; beside --list there are options"));
    return arguments;
  }

  BenchAllReduceArguments with_sizes() const {
    BenchAllReduceArguments arguments = bench_all_reduce_;
    const std::string& smallest = bytes_.empty() ? min_ : bytes_;
    const std::string& largest = bytes_.empty() ? max_ : bytes_;
    if (!smallest.empty()) arguments.min_bytes = static_cast<std::size_t>(bytes_from_text(smallest));
    if (!largest.empty()) arguments.max_bytes = static_cast<std::size_t>(bytes_from_text(largest));
    if (arguments.min_bytes > arguments.max_bytes) {
      throw UserError(
          cat("--min must not be above --max, got ", arguments.min_bytes, " and ", arguments.max_bytes));
    }
    return arguments;
  }

  CLI::App app_{"Flotilla trains neural networks by data parallelism under mpirun or srun."};
  std::function<CommandLine()> chosen_;
  TrainArguments train_;
  EvaluateArguments evaluate_;
  PredictArguments predict_;
  InspectArguments inspect_;
  ExportArguments export_;
  BenchAllReduceArguments bench_all_reduce_;
  BenchInputArguments bench_input_;
  BenchStepArguments bench_step_;
  MakeDataArguments make_data_;
  std::string first_;
  std::vector<std::string> others_;
  std::string bytes_;
  std::string min_;
  std::string max_;
};

}  // namespace

std::variant<CommandLine, PrintedText> parse_command_line(const std::string& program,
                                                          const std::vector<std::string>& arguments,
                                                          const std::string& version_text) {
  return Parser(program, version_text).parse(arguments);
}

}  // namespace flotilla
