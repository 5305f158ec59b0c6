// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace flotilla {

/// `flotilla inspect`: how to show a checkpoint.
struct InspectOptions {
  bool json = false;                                     ///< Else a table
  bool deck = false;                                     ///< Append the deck; JSON always has it
  std::function<void(const std::string&)> on_damaged{};  ///< Of a folder: what is passed over
};

struct Inspection {
  std::string text;    ///< What could be read, to be printed
  std::string damage;  ///< What is wrong, for the error line (exit code 2); empty if the file is good
};

/// Shows state and tensors of a checkpoint or a file of weights: shape, mean, rms, min and max over the
/// finite values, the number of the others, and whether the checksum fits; likewise tables of rows, over the
/// parts of all servers. A folder means its newest good checkpoint.
/// @throws UserError if nothing at all can be read.
Inspection inspect(const std::string& file_or_folder, const InspectOptions& options);

}  // namespace flotilla
