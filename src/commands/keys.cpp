// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/commands/subcommand.hpp"
#include "src/config/deck.hpp"
#include "src/config/key_search.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

struct KeysArguments {
  std::vector<std::string> words;  ///< Words of a question, or a path as explained_keys() takes it
  bool all = false;
};

int print_keys(const KeysArguments& arguments) {
  const std::vector<std::string>& words = arguments.words;
  if (arguments.all && words.size() > 1)
    throw UserError("--all takes one table, key or name: flotilla keys --all strategy");
  // A dot makes it a path.
  const bool is_path = words.size() == 1 && words.front().find('.') != std::string::npos;
  if (arguments.all || is_path)
    print_line(explained_keys(words.empty() ? "" : words.front()));
  else
    print_line(words.empty() ? keys_by_topic() : found_keys(words));
  return exit_done;
}

}  // namespace

Subcommand keys_command() {
  return SubcommandOf<KeysArguments>{
      .name = "keys",
      .help = "Find and explain the keys of a deck",
      .add_options =
          [](CLI::App& command, KeysArguments& arguments, Positionals& /*positionals*/) {
            command.add_option("WORD", arguments.words,
                               "What it is about, in words of your own or of other programs: learning rate, "
                               "num_workers, amp; or a path: train.epochs, strategy. (a page of topics)");
            command.add_flag("--all", arguments.all,
                             "A line for each key, or all keys explained whose paths begin with WORD or that "
                             "are called so");
          },
      .run_alone = print_keys};
}

}  // namespace flotilla
