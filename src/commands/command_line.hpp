// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "src/commands/bench_all_reduce.hpp"
#include "src/commands/bench_input.hpp"
#include "src/commands/bench_step.hpp"
#include "src/commands/compare.hpp"
#include "src/commands/evaluate.hpp"
#include "src/commands/export.hpp"
#include "src/commands/make_borehole.hpp"
#include "src/commands/make_data.hpp"
#include "src/commands/pack.hpp"
#include "src/commands/predict.hpp"
#include "src/commands/report.hpp"
#include "src/commands/train.hpp"
#include "src/commands/watch.hpp"

namespace flotilla {

struct InspectArguments {
  std::string checkpoint;  ///< A file or a folder
  bool json = false;
  bool show_deck = false;  ///< The deck as well
};

struct KeysArguments {
  std::string what;  ///< As explained_keys() takes it
};

/// The parsed command line: the command that was given, with its options.
using CommandLine = std::variant<TrainArguments, CompareArguments, EvaluateArguments, PredictArguments,
                                 InspectArguments, ExportArguments, ReportArguments, BenchAllReduceArguments,
                                 BenchInputArguments, BenchStepArguments, MakeDataArguments,
                                 MakeBoreholeArguments, PackArguments, WatchArguments, KeysArguments>;

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

}  // namespace flotilla
