// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/observe/reporter.hpp"

namespace flotilla {

/// A line of the console about a report, without line feed, in the form of Fleet's examples (docs/fleet.md,
/// "Images").
std::string console_line(const StartReport& report);
/// "[Epoch 0, batch 100] loss: 0.41235, acc1: 0.87500, acc5: 0.99219, 84120 samples/s, mean loss: 0.52341,
/// lr: 0.001"
std::string console_line(const StepReport& report);
std::string console_line(const ValidationReport& report);
std::string console_line(const CheckpointReport& report);
std::string console_line(const EndReport& report);

/// "12.3 MB" (powers of 1000), "45 s", "1 h 03 min".
std::string bytes_text(std::int64_t bytes);
std::string duration_text(double seconds);

/// " 45 % [#########...........] 45/100 steps, 1 min 20 s left", at most columns − 1 wide.
std::string progress_bar(std::int64_t done, std::int64_t total, double seconds_left, int columns);

/// The width of the terminal on stdout; 0 if stdout is no terminal. Open MPI gives its ranks a
/// pseudo-terminal without a size even if its own output is a file, so then the launcher's stdout is
/// examined.
int terminal_columns();

/// Lines on stdout with, on a terminal, a progress bar below them. What cannot be written is lost: a run does
/// not end because its terminal is closed.
class Console {
 public:
  /// @param columns of the terminal; 0: no bar.
  explicit Console(int columns) : columns_(columns) {}
  int columns() const { return columns_; }
  void line(const std::string& text);  ///< Prints a line above the bar.
  void bar(const std::string& text);   ///< Shows or, with an empty text, removes the bar.

 private:
  int columns_;
  std::string bar_;
};

}  // namespace flotilla
