// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
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

/// The width of the terminal on stdout; 0 if stdout is no terminal. Open MPI gives its ranks a
/// pseudo-terminal without a size even if its own output is a file, so then the launcher's stdout is
/// examined.
int terminal_columns();

/// Lines on stdout with, on a terminal, a last line that is renewed below them, the bar. What cannot be
/// written is lost: a run does not end because its terminal is closed. Calls from several threads are taken
/// one after another.
class Console {
 public:
  /// @param columns of the terminal; 0: no bar.
  explicit Console(int columns) : columns_(columns) {}
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// The console of this process, which has no bar until use_terminal().
  static Console& of_process();
  /// Shows a bar if stdout is a terminal. For the one process of a job that speaks for all.
  void use_terminal() { columns_ = terminal_columns(); }
  int columns() const { return columns_; }
  void line(const std::string& text);  ///< Prints a line above the bar.
  void bar(const std::string& text);   ///< Shows a bar in place of the one that is shown.
  void erase_bar() noexcept;

 private:
  std::atomic<int> columns_;
  std::mutex mutex_;
  std::string bar_;
};

}  // namespace flotilla
