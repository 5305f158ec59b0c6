// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "src/commands/command_line.hpp"

namespace flotilla {

/// What stands on the command line without an option, in its order: files and overrides of deck keys.
struct Positionals {
  std::string first;
  std::vector<std::string> others;
};

/// Sizes of messages as they are written: "512", "1K", "64M"; empty: not given.
struct SizeTexts {
  std::string bytes;
  std::string min;
  std::string max;
};

/// Options and positionals of one command, which CLI11 fills into `arguments` (and `words`) when it parses.
/// All must outlive `command`.
void add_options(CLI::App& command, TrainArguments& arguments, Positionals& positionals);
void add_options(CLI::App& command, CompareArguments& arguments, Positionals& positionals);
void add_options(CLI::App& command, EvaluateArguments& arguments, Positionals& positionals);
void add_options(CLI::App& command, PredictArguments& arguments, Positionals& positionals);
void add_options(CLI::App& command, InspectArguments& arguments);
void add_options(CLI::App& command, ExportArguments& arguments);
void add_options(CLI::App& command, WatchArguments& arguments);
void add_options(CLI::App& command, KeysArguments& arguments);
void add_options(CLI::App& command, ReportArguments& arguments);
void add_options(CLI::App& command, BenchAllReduceArguments& arguments, SizeTexts& sizes);
void add_options(CLI::App& command, BenchStepArguments& arguments, Positionals& positionals);
void add_options(CLI::App& command, BenchInputArguments& arguments, Positionals& positionals);
void add_options(CLI::App& command, MakeDataArguments& arguments);
void add_options(CLI::App& command, MakeBoreholeArguments& arguments);
void add_options(CLI::App& command, PackArguments& arguments);

/// "64", "1K", "64M", "1G", with or without "B" or "iB": K is 1,024. @throws UserError for anything else.
std::int64_t bytes_from_text(const std::string& text);

}  // namespace flotilla
