// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace flotilla {

struct InspectArguments {
  std::string checkpoint;  ///< A file or a folder
  bool json = false;
  bool show_deck = false;  ///< The deck as well
  std::string target{};    ///< Of a table, the column that its deck predicts; empty: a guess
};

/// Options for showing a checkpoint.
struct InspectOptions {
  bool json = false;     ///< Else a table
  bool deck = false;     ///< Append the deck; of data only one that trains on them. JSON always has it
  std::string target{};  ///< InspectArguments::target
  /// Gets a message for each damaged checkpoint of a folder, and for what training would refuse in a table
  std::function<void(const std::string&)> warn{};
};

struct Inspection {
  std::string text;    ///< The readable content, to be printed
  std::string damage;  ///< The damage, for the error line (exit code 2); empty: none
};

/// Shows state and tensors of a checkpoint or a file of weights: shape, mean, rms, min and max over the
/// finite values, the number of the others, and whether the checksum fits; for tables of rows over the parts
/// of all servers. A folder means its newest good checkpoint. Of a file of data: see inspect_arrays().
/// @throws UserError if nothing at all can be read.
Inspection inspect(const std::string& file_or_folder, const InspectOptions& options);

/// Prints lines of as many words as the first, in columns as wide as they need, the first one to the left;
/// control characters of names that come from files are escaped.
void print_columns(std::ostream& out, std::vector<std::vector<std::string>> lines);

}  // namespace flotilla
