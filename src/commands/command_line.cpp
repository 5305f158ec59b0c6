// SPDX-License-Identifier: Apache-2.0
#include "src/commands/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"
#include "src/commands/command_options.hpp"
#include "src/config/keys.hpp"
#include "src/config/values.hpp"

namespace flotilla {
namespace {

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

/// The command line while it is parsed: the commands, what CLI11 fills, and which words are files or
/// overrides.
class Parser {
 public:
  Parser(const std::string& program, const std::string& version_text) {
    app_.name(std::filesystem::path(program).filename().string());
    app_.set_version_flag("--version", version_text, "Print the versions of what was built in");
    app_.require_subcommand(1);
    add_commands();
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

  void add_commands() {
    CLI::App* train =
        add_command(app_, "train", "Train the network of a deck", [this] { return with_deck(train_, true); });
    add_options(*train, train_, positionals_);
    CLI::App* compare = add_command(app_, "compare", "Train a deck in several ways, and compare them",
                                    [this] { return with_plan(); });
    add_options(*compare, compare_, positionals_);
    CLI::App* evaluate = add_command(app_, "evaluate", "Evaluate a checkpoint on validation data",
                                     [this] { return with_deck(evaluate_, false); });
    add_options(*evaluate, evaluate_, positionals_);
    CLI::App* predict =
        add_command(app_, "predict", "Predict the classes of samples without labels, or their numbers",
                    [this] { return with_inputs(); });
    add_options(*predict, predict_, positionals_);
    CLI::App* inspect = add_command(app_, "inspect", "Print what a checkpoint or a file of data holds",
                                    [this] { return inspect_; });
    add_options(*inspect, inspect_);
    CLI::App* exporting =
        add_command(app_, "export", "Write a checkpoint's model without the state of its training",
                    [this] { return export_; });
    add_options(*exporting, export_);
    CLI::App* packing = add_command(app_, "pack", "Pack images into tar files, to be read in large pieces",
                                    [this] { return pack_; });
    add_options(*packing, pack_);
    CLI::App* watching = add_command(app_, "watch", "Show where a run stands, until it ends; from any host",
                                     [this] { return watch_; });
    add_options(*watching, watch_);
    CLI::App* keys = add_command(app_, "keys", "Explain the keys of a deck", [this] { return keys_; });
    add_options(*keys, keys_);
    CLI::App* report = add_command(app_, "report", "Write a page with the curves and figures of runs",
                                   [this] { return report_; });
    add_options(*report, report_);
  }

  void add_bench() {
    CLI::App* bench = app_.add_subcommand("bench", "Measure parts of Flotilla on this machine");
    bench->require_subcommand(1);
    CLI::App* all_reduce = add_command(*bench, "all-reduce", "Every all-reduce there is, over message sizes",
                                       [this] { return with_sizes(); });
    add_options(*all_reduce, bench_all_reduce_, sizes_);
    CLI::App* input = add_command(*bench, "input",
                                  "Training samples per second that the loader hands over, of a list of "
                                  "images or of a deck",
                                  [this] { return with_list_or_deck(); });
    add_options(*input, bench_input_, positionals_);
    CLI::App* step = add_command(*bench, "step", "A training step and its phases",
                                 [this] { return with_deck(bench_step_, true); });
    add_options(*step, bench_step_, positionals_);
  }

  void add_make_data() {
    CLI::App* make =
        app_.add_subcommand("make-data", "Write synthetic data of which the best prediction is known");
    make->require_subcommand(1);
    CLI::App* criteo =
        add_command(*make, "criteo", "Click logs in Criteo's layout: a label, 13 numbers, 26 categories",
                    [this] { return make_data_; });
    add_options(*criteo, make_data_);
    CLI::App* borehole =
        add_command(*make, "borehole", "HDF5 arrays of a function of 8 numbers, the flow through a borehole",
                    [this] { return make_borehole_; });
    add_options(*borehole, make_borehole_);
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
                        keys.empty() ? "a key of the deck is set by key.path=value (flotilla keys lists them)"
                                     : "write " + keys,
                        ", or see ", used_command(), " --help"));
  }

  PredictArguments with_inputs() const {
    PredictArguments arguments = predict_;
    std::vector<std::string> written = {arguments.checkpoint, positionals_.first};
    written.insert(written.end(), positionals_.others.begin(), positionals_.others.end());
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
    std::vector<std::string> written = {positionals_.first};
    constexpr bool has_checkpoint = requires {
      arguments.checkpoint;
    };
    if constexpr (has_checkpoint) written.insert(written.begin(), arguments.checkpoint);
    written.insert(written.end(), positionals_.others.begin(), positionals_.others.end());
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

  CompareArguments with_plan() const {
    CompareArguments arguments = compare_;
    std::vector<std::string> files;
    std::vector<std::string> written = {positionals_.first};
    written.insert(written.end(), positionals_.others.begin(), positionals_.others.end());
    for (const std::string& text : written) (is_override(text) ? arguments.overrides : files).push_back(text);
    if (files.size() != 1)
      throw UserError(cat("one PLAN is needed, got ", files.size(), "; see ", used_command(), " --help"));
    arguments.plan = files.front();
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
    const std::string& smallest = sizes_.bytes.empty() ? sizes_.min : sizes_.bytes;
    const std::string& largest = sizes_.bytes.empty() ? sizes_.max : sizes_.bytes;
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
  CompareArguments compare_;
  EvaluateArguments evaluate_;
  PredictArguments predict_;
  InspectArguments inspect_;
  ExportArguments export_;
  WatchArguments watch_;
  KeysArguments keys_;
  ReportArguments report_;
  BenchAllReduceArguments bench_all_reduce_;
  BenchInputArguments bench_input_;
  BenchStepArguments bench_step_;
  MakeDataArguments make_data_;
  MakeBoreholeArguments make_borehole_;
  PackArguments pack_;
  Positionals positionals_;
  SizeTexts sizes_;
};

}  // namespace

std::variant<CommandLine, PrintedText> parse_command_line(const std::string& program,
                                                          const std::vector<std::string>& arguments,
                                                          const std::string& version_text) {
  return Parser(program, version_text).parse(arguments);
}

}  // namespace flotilla
