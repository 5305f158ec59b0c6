// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "src/commands/subcommand.hpp"

namespace flotilla {

/// The parsed command line: the command that was given, with its arguments.
struct CommandLine {
  const Subcommand* command;
  Subcommand::Arguments arguments;
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

}  // namespace flotilla
