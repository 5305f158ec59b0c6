// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <any>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/job/failure.hpp"

namespace CLI {
class App;
}

namespace flotilla {

/// The positional arguments of a command line: files in their order and overrides of deck keys,
/// "train.epochs=3", which may be anywhere between them.
class Positionals {
 public:
  /// Adds a positional to the command while its options are described. @param name as help shows it
  void add_file(CLI::App& command, const char* name, const char* help, bool required = true);
  /// Adds OVERRIDES, all arguments after the files. @param help what else may be given there
  void add_overrides(CLI::App& command, const std::string& help = {});

  /// Tells files from overrides, once the command line is parsed. @param hint "see flotilla train --help"
  void read(const std::string& hint);
  /// Takes the first file. @throws UserError if there is none
  std::string take_file(const char* name);
  /// Takes the only file that is left. @returns empty if there is none and none is required
  /// @throws UserError for several, or for none where one is required
  std::string take_deck(bool required);

  std::vector<std::string> files{};
  std::vector<std::string> overrides{};
  std::string hint{};  ///< "see flotilla train --help"

 private:
  std::deque<std::string> first_;  ///< The values of add_file(), whose addresses stay
  std::vector<std::string> others_;
};

/// Help of the option --best.
inline constexpr const char* best_help =
    "Of a run's folder the checkpoint of the best validation (checkpoint.best) instead of the newest";

/// "train.epochs=3", in contrast to the path of a file; a file of such a name is written with "./" before it.
bool is_override(const std::string& text);

/// The description of a subcommand with arguments of one type. A new one is described at the end of its
/// source, and subcommands() lists it; --help, completion and manual pages follow.
template <class Arguments>
struct SubcommandOf {
  std::string_view name;  ///< "train"; in a group of commands "bench step"
  const char* help;
  /// Describes the options, which are parsed into `arguments`, and the files and overrides. Null: there are
  /// none, the name is that of a group
  void (*add_options)(CLI::App& command, Arguments& arguments, Positionals& positionals) = nullptr;
  /// Takes files and overrides and checks what was parsed. Null: all is in the options
  /// @throws UserError
  void (*take_positionals)(Arguments& arguments, Positionals& positionals) = nullptr;
  /// Runs in one process, without MPI. Null: `run_on_ranks` is there. @returns the exit code
  int (*run_alone)(const Arguments& arguments) = nullptr;
  /// Whether a launcher may start a command that runs in one process once on each host, side by side
  bool once_a_host = false;
  /// Collective over all ranks of the job. @returns the exit code
  int (*run_on_ranks)(const Arguments& arguments, const mpi::Communicator& world,
                      FailureHandler& failure) = nullptr;
  /// Whether it ends in order when the job is asked to stop. Null: it does not
  bool (*stops_in_order)(const Arguments& arguments) = nullptr;
  /// Ranks that it starts where no launcher did. Null or below 2: it runs in this process
  int (*ranks_to_start)(const Arguments& arguments) = nullptr;
};

/// SubcommandOf without the type of its arguments.
struct Subcommand {
  using Arguments = std::any;

  template <class Of>
  Subcommand(const SubcommandOf<Of>& of);  // NOLINT(google-explicit-constructor): the same description

  std::string_view name;
  const char* help;
  bool is_group;
  bool runs_alone;
  bool once_a_host;
  /// Describes the options. @returns what gives the arguments once the command line is parsed, to be called
  /// with what an error message points to, "see flotilla train --help"
  std::function<std::function<Arguments(const std::string& hint)>(CLI::App& command)> add_options;
  std::function<int(const Arguments& arguments)> run_alone;
  std::function<int(const Arguments& arguments, const mpi::Communicator& world, FailureHandler& failure)>
      run_on_ranks;
  std::function<bool(const Arguments& arguments)> stops_in_order;
  std::function<int(const Arguments& arguments)> ranks_to_start;
};

template <class Of>
Subcommand::Subcommand(const SubcommandOf<Of>& of)
    : name(of.name),
      help(of.help),
      is_group(of.add_options == nullptr),
      runs_alone(of.run_alone != nullptr),
      once_a_host(of.once_a_host),
      add_options([of](CLI::App& command) {
        const auto arguments = std::make_shared<Of>();
        const auto positionals = std::make_shared<Positionals>();
        of.add_options(command, *arguments, *positionals);
        return [of, arguments, positionals](const std::string& hint) {
          positionals->read(hint);
          if (of.take_positionals != nullptr) of.take_positionals(*arguments, *positionals);
          return Arguments(*arguments);
        };
      }),
      run_alone([of](const Arguments& given) { return of.run_alone(std::any_cast<const Of&>(given)); }),
      run_on_ranks([of](const Arguments& given, const mpi::Communicator& world, FailureHandler& failure) {
        return of.run_on_ranks(std::any_cast<const Of&>(given), world, failure);
      }),
      stops_in_order([of](const Arguments& given) {
        return of.stops_in_order != nullptr && of.stops_in_order(std::any_cast<const Of&>(given));
      }),
      ranks_to_start([of](const Arguments& given) {
        return of.ranks_to_start != nullptr ? of.ranks_to_start(std::any_cast<const Of&>(given)) : 0;
      }) {}

/// All subcommands in the order in which help lists them; a group precedes its commands.
const std::vector<Subcommand>& subcommands();

}  // namespace flotilla
