// SPDX-License-Identifier: Apache-2.0
#include "src/commands/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/collect_keys.hpp"
#include "src/config/key_search.hpp"
#include "src/config/suggestions.hpp"
#include "src/config/values.hpp"

namespace flotilla {
namespace {

/// @throws UserError for a path that is not UTF-8. Other mistakes in an override are reported with its key
/// when the deck is read.
void check_is_text(const std::string& argument) {
  const bool is_option = argument.starts_with('-');
  if (config::is_utf8(argument) || (is_override(argument) && !is_option)) return;
  throw UserError(
      cat("the argument ", config::quoted(argument),
          " is not UTF-8, as decks, checkpoints and metrics are: rename that file or folder, or give "
          "another path"));
}

bool fits(const config::Key& key, const std::string& text) {
  const auto value = config::value_from_text(text, config::default_of(key));
  return !text.empty() && value && !config::broken_rule(key, *value);
}

/// The command line while it is parsed.
class Parser {
 public:
  Parser(const std::string& program, const std::string& version_text) {
    app_.name(std::filesystem::path(program).filename().string());
    app_.set_version_flag("--version", version_text, "Print the versions of what was built in");
    app_.require_subcommand(1);
    for (const Subcommand& command : subcommands()) add(command);
  }

  /// @param arguments the program's, of which "help" at the beginning is --help at the end
  std::variant<CommandLine, PrintedText> parse(std::vector<std::string> arguments) {
    std::ranges::for_each(arguments, check_is_text);
    if (!arguments.empty() && arguments.front() == "help") {
      std::ranges::rotate(arguments, arguments.begin() + 1);
      arguments.back() = "--help";
    }
    try {
      app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      if (!app_.remaining(true).empty()) refuse_missing_command();
      return PrintedText{app_.help()};
    } catch (const CLI::CallForVersion& version) {
      return PrintedText{std::string(version.what()) + "\n"};
    } catch (const CLI::RequiredError& error) {
      refuse_missing_command();
      throw UserError(cat(error.what(), "; ", hint()));
    } catch (const CLI::ParseError& error) {
      refuse_key_as_option(arguments);
      throw UserError(cat(error.what(), "; ", hint()));
    }
    return chosen_();
  }

 private:
  void add(const Subcommand& command) {
    const std::size_t space = command.name.find(' ');
    CLI::App* const parent =
        space == command.name.npos ? &app_ : app_.get_subcommand(std::string(command.name.substr(0, space)));
    CLI::App* const added = parent->add_subcommand(std::string(command.name.substr(space + 1)), command.help);
    if (command.is_group) {
      added->require_subcommand(1);
      return;
    }
    added->callback([this, &command, arguments = command.add_options(*added)] {
      chosen_ = [this, &command, arguments] { return CommandLine{&command, arguments(hint())}; };
    });
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

  std::string hint() const { return cat("see ", used_command(), " --help"); }

  /// CLI11 says only that "a subcommand is required".
  void refuse_missing_command() const {
    const auto known = used().get_subcommands([](const CLI::App*) { return true; });
    if (known.empty()) return;
    const std::vector<std::string> rest = app_.remaining(true);
    std::string text =
        rest.empty() ? "a command is missing" : cat("there is no command ", config::quoted(rest.front()));
    std::vector<std::string> names;
    for (const CLI::App* command : known) names.push_back(command->get_name());
    std::string meant = rest.empty() ? "" : config::nearest_word(rest.front(), names);
    if (!rest.empty() && rest.front().ends_with(".toml")) meant = cat("train ", rest.front());
    if (!meant.empty())
      throw UserError(
          cat(text, "; did you mean ", used_command(), " ", meant, "? See ", used_command(), " --help"));
    for (const std::string& name : names) text += (name == names.front() ? "; one of " : ", ") + name;
    throw UserError(cat(text, " is needed; ", hint()));
  }

  /// "--epochs 3" or "--lr 0.1", as other programs have it, of a command that takes a deck.
  void refuse_key_as_option(const std::vector<std::string>& arguments) const {
    const std::vector<std::string> rest = app_.remaining(true);
    if (rest.empty() || !rest.front().starts_with("--") || used().get_option_no_throw("OVERRIDES") == nullptr)
      return;
    const std::size_t equals = rest.front().find('=');
    const std::string option = rest.front().substr(0, equals);
    const auto next = std::next(std::ranges::find(arguments, rest.front()));
    std::string value;
    if (equals != std::string::npos)
      value = rest.front().substr(equals + 1);
    else if (next != arguments.end() && !next->starts_with('-') && !is_override(*next))
      value = *next;
    std::string remedy;
    const std::vector<const config::Key*> keys = config::keys_called(option);
    for (const config::Key* key : std::span(keys).first(std::min<std::size_t>(keys.size(), 3)))
      remedy += cat(remedy.empty() ? "write " : " or ", key->path, "=", fits(*key, value) ? value : "VALUE");
    std::vector<std::string> options;
    for (const CLI::Option* known : used().get_options()) options.push_back(known->get_name());
    if (const std::string meant = config::nearest_word(option, options); remedy.empty() && !meant.empty())
      remedy = cat("did you mean ", meant, "?");
    if (remedy.empty()) remedy = "a key of the deck is set by key.path=value (flotilla keys finds them)";
    throw UserError(
        cat("there is no option ", option, "; ", remedy, remedy.ends_with('?') ? " Or " : ", or ", hint()));
  }

  CLI::App app_{"Flotilla trains neural networks by data parallelism under mpirun or srun."};
  std::function<CommandLine()> chosen_;
};

}  // namespace

std::variant<CommandLine, PrintedText> parse_command_line(const std::string& program,
                                                          const std::vector<std::string>& arguments,
                                                          const std::string& version_text) {
  return Parser(program, version_text).parse(arguments);
}

}  // namespace flotilla
