// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace flotilla {

/// The parsed command line: the options of all subcommands.
struct CommandLine {
  enum class Command {
    train,
    evaluate,
    inspect,
    export_model,
    bench_all_reduce,
    bench_input,
    bench_step,
    make_data
  };
  Command command = Command::train;

  std::string deck;                    ///< train, bench step; evaluate, bench input: may be empty
  std::string checkpoint;              ///< evaluate, inspect, export: a file or a folder
  std::string output;                  ///< export, make-data
  std::vector<std::string> overrides;  ///< "key.path=value" in the order written

  bool check = false;      ///< train
  std::string vectors;     ///< evaluate: empty: none
  bool per_class = false;  ///< evaluate
  bool json = false;       ///< inspect
  bool show_deck = false;  ///< inspect: the deck as well

  std::int64_t min_bytes = 1024;               ///< bench all-reduce
  std::int64_t max_bytes = 256 * 1024 * 1024;  ///< bench all-reduce; with --bytes equal to min_bytes
  bool in_place = false;                       ///< bench all-reduce
  std::string device = "cpu";                  ///< bench all-reduce, input: kind of device
  int ranks_per_group = 0;                     ///< bench all-reduce: 0: a group per host
  int communicators = 1;                       ///< bench all-reduce
  std::int64_t steps = 200;                    ///< bench step: measured, after the warm-up
  std::int64_t checkpoint_every = 0;           ///< bench step: steps; 0: none
  bool operations = false;                     ///< bench step: a line for each
  std::string json_file;                       ///< bench: empty: none
  std::string list;                            ///< bench input: empty: the deck's data
  std::string root;                            ///< bench input: empty: found by the list's name
  std::string filter = "bilinear";             ///< bench input
  std::int64_t threads = 1;                    ///< bench input
  std::int64_t size = 224;                     ///< bench input: pixels
  double seconds = 5.0;                        ///< bench input
  std::int64_t images = 0;                     ///< bench input: instead of seconds; 0: none

  std::int64_t rows = 0;             ///< make-data
  std::int64_t validation_rows = 0;  ///< make-data
  std::int64_t seed = 1;             ///< make-data
  std::int64_t vocabulary = 100000;  ///< make-data: most categories of a slot
  std::string truth;                 ///< make-data: file for the true probabilities; empty: none
};

/// A text to print before exiting with 0: help or version.
struct PrintedText {
  std::string text;
};

/// Parses the arguments after the program's name. Prints nothing and never exits.
/// @param program its name, perhaps with a path: a program with models of its own has another name
/// @throws UserError naming the mistake and the option for help.
std::variant<CommandLine, PrintedText> parse_command_line(const std::string& program,
                                                          const std::vector<std::string>& arguments,
                                                          const std::string& version_text);

/// "64", "1K", "64M", "1G", with or without "B" or "iB": K is 1,024. @throws UserError for anything else.
std::int64_t bytes_from_text(const std::string& text);

}  // namespace flotilla
