// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/observe/reporter.hpp"

namespace flotilla {

/// A line of the log about a report, without line feed, in the form of Fleet's examples (docs/fleet.md,
/// "Images"); the console's with --verbose.
std::string console_line(const StartReport& report);
/// "[Epoch 0, batch 100] loss: 0.41235, acc1: 0.87500, acc5: 0.99219, 84120 samples/s, mean loss: 0.52341,
/// lr: 0.001"
std::string console_line(const StepReport& report);
std::string console_line(const ValidationReport& report);
std::string console_line(const CheckpointReport& report);
std::string console_line(const EndReport& report);
/// The line at the end on what worker 0 sent over the whole run, and on its waits; empty: it sent nothing.
std::string communication_line(const EndReport& report);

/// The console's line about a report: "epoch 2 of 3, step 100/237, loss 0.5097, acc1 92.97 %, 70782
/// samples/s, lr 0.001". Epochs count from 1. @param run the training's start
std::string short_line(const StartReport& run, const StepReport& report);
std::string short_line(const StartReport& run, const ValidationReport& report);

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
  void set_verbosity(Verbosity verbosity) { verbosity_ = verbosity; }
  Verbosity verbosity() const { return verbosity_; }
  /// Shows a bar, and colours unless NO_COLOR is set, if stdout is a terminal. For the one process of a job
  /// that speaks for all.
  void use_terminal() { columns_ = verbosity_ == Verbosity::quiet ? 0 : terminal_columns(); }
  int columns() const { return columns_; }
  /// Prints a line above the bar, if its kind is shown.
  void line(const std::string& text, Message kind = Message::note);
  void bar(const std::string& text);  ///< Shows a bar in place of the one that is shown.
  void erase_bar() noexcept;

 private:
  std::atomic<int> columns_;
  std::atomic<Verbosity> verbosity_ = Verbosity::normal;
  std::mutex mutex_;
  std::string bar_;
};

/// A training at one moment.
struct LiveStep {
  std::int64_t step = 0;   ///< Done
  std::int64_t epoch = 0;  ///< Begun before this one
  std::int64_t batch = 0;  ///< Number in the epoch, from 1
  double loss = 0.0;
  double samples_per_s = 0.0;  ///< All workers, over the last seconds
  double step_s = 0.0;         ///< A step, over the last seconds
  std::optional<double>
      waiting{};  ///< Share of the time spent waiting for input and other workers, in [0, 1]
  std::optional<double> seconds_per_step{};  ///< Mean over the run so far, including all between steps; if
                                             ///< empty, step_s is used
};

/// The terminal's last line about a training:
/// " 45 % [####......] epoch 2 of 10, step 203/790, loss 0.12342, 111483 samples/s, epoch 1.2 s left, run 5.1
/// s left, waiting 12 %". At most columns − 1 wide: what matters least is left out first. Epochs are counted
/// from 1.
std::string live_line(const StartReport& run, const LiveStep& now, int columns);

/// " 45 % [####......] staging data, 1.2 GB of 3.4 GB, 12 s left": at most columns − 1 wide.
/// @param fields by falling importance, the first stays in any case
std::string line_with_bar(double share, const std::vector<std::string>& fields, int columns);

}  // namespace flotilla
