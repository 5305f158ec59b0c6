// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <string>

#include "kernels/error.hpp"
#include "src/commands/subcommand.hpp"
#include "src/config/deck.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

struct KeysArguments {
  std::string what;  ///< As explained_keys() takes it
};

}  // namespace

Subcommand keys_command() {
  return SubcommandOf<KeysArguments>{
      .name = "keys",
      .help = "Explain the keys of a deck",
      .add_options =
          [](CLI::App& command, KeysArguments& arguments, Positionals& /*positionals*/) {
            command.add_option(
                "PREFIX", arguments.what,
                "A table, a key or a name: strategy, train.epochs, learning_rate (all, a line each)");
          },
      .run_alone = [](const KeysArguments& arguments) -> int {
        print_line(explained_keys(arguments.what));
        return exit_done;
      }};
}

}  // namespace flotilla
