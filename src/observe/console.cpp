// SPDX-License-Identifier: Apache-2.0
#include "src/observe/console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <utility>

#include "src/files/write_fully.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

/// Of fewer classes the label is among the five highest logits for most samples.
constexpr std::int64_t least_classes_for_top5 = 10;

/// As the console calls a figure.
std::string short_name(const std::string& key) {
  return key == "accuracy_top1" ? "acc1" : key == "accuracy_top5" ? "acc5" : key == "accuracy" ? "acc" : key;
}

bool shows_top5(std::int64_t classes) {
  return classes == 0 || classes >= least_classes_for_top5;
}

/// Of a figure in units of the data, which may be of any size.
void add_significant(std::string& line, const char* name, const std::optional<double>& value) {
  if (value) line += fmt::format(", {}: {:.6g}", name, *value);
}

constexpr const char* erase_line = "\r\033[K";

/// 0 if `descriptor` is no terminal or has no size.
int columns_of(int descriptor) {
  winsize size{};
  if (isatty(descriptor) != 1 || ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace

std::string console_line(const StartReport& report) {
  const std::string begin = fmt::format(
      "{} {}", report.first_step > 0 ? "resuming after step" : "starting at step", report.first_step);
  return report.steps > 0 ? fmt::format("{} of {}", begin, report.steps) : begin;
}

std::string console_line(const StepReport& report) {
  std::string line =
      fmt::format("[Epoch {}, batch {}] loss: {:.5f}", report.epoch, report.batch, report.loss);
  if (report.auc && report.batch_auc) {
    line += fmt::format(", auc: {:.5f}, batch_auc: {:.5f}", *report.auc, *report.batch_auc);
  } else {
    if (report.accuracy_top1) line += fmt::format(", acc1: {:.5f}", *report.accuracy_top1);
    if (report.accuracy_top5 && shows_top5(report.classes))
      line += fmt::format(", acc5: {:.5f}", *report.accuracy_top5);
  }
  if (report.loss_scale) line += fmt::format(", loss_scale: {:.6g}", *report.loss_scale);
  if (report.skipped_steps && *report.skipped_steps > 0)
    line += fmt::format(", skipped: {}", *report.skipped_steps);
  line += fmt::format(", {:.{}f} samples/s", report.samples_per_s, report.samples_per_s < 100.0 ? 2 : 0);
  if (report.loss_mean) line += fmt::format(", mean loss: {:.5f}", *report.loss_mean);
  return line + fmt::format(", lr: {:.6g}", report.learning_rate);
}

std::string console_line(const ValidationReport& report) {
  std::string line = fmt::format("[Epoch {}, validation] loss: {:.5f}", report.epoch, report.loss);
  if (report.auc && report.log_loss && report.calibration) {
    line += fmt::format(", auc: {:.5f}, log_loss: {:.5f}, calibration: {:.4f}", *report.auc, *report.log_loss,
                        *report.calibration);
  } else {
    const auto add = [&line](const char* name, const std::optional<double>& value) {
      if (value) line += fmt::format(", {}: {:.5f}", name, *value);
    };
    add("acc1", report.accuracy_top1);
    if (shows_top5(report.classes)) add("acc5", report.accuracy_top5);
    add_significant(line, "rmse", report.rmse);
    add_significant(line, "mae", report.mae);
    add("r2", report.r2);
    add("acc", report.accuracy);
    add("f1", report.f1);
  }
  if (report.average_loss) {
    line += fmt::format(", average's loss: {:.5f}", *report.average_loss);
    if (report.average_accuracy_top1) line += fmt::format(", acc1: {:.5f}", *report.average_accuracy_top1);
    if (report.average_r2) line += fmt::format(", r2: {:.5f}", *report.average_r2);
    if (report.average_accuracy) line += fmt::format(", acc: {:.5f}", *report.average_accuracy);
  }
  line += fmt::format(", {} samples", report.samples);
  if (report.epoch_s) line += ", epoch: " + duration_text(*report.epoch_s);
  if (report.best && report.best_of && report.best_epoch)
    line += fmt::format(", best {}: {:.5f} in epoch {}", short_name(*report.best_of), *report.best,
                        *report.best_epoch);
  return line;
}

std::string console_line(const CheckpointReport& report) {
  return fmt::format("checkpoint {}: {}, stall {:.1f} ms, written in {:.1f} ms", report.path,
                     bytes_text(report.bytes), report.stall_s * 1e3, report.write_s * 1e3);
}

std::string console_line(const EndReport& report) {
  const std::string skipped =
      report.skipped_steps ? fmt::format(" ({} skipped: they overflowed)", *report.skipped_steps) : "";
  return fmt::format("{} after step {}{} in {}, peak memory {} per rank", report.reason, report.step, skipped,
                     duration_text(report.seconds), bytes_text(report.peak_memory_bytes));
}

std::string bytes_text(std::int64_t bytes) {
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* larger : {"kB", "MB", "GB", "TB"}) {
    if (value < 999.95) break;
    value /= 1000.0;
    unit = larger;
  }
  return bytes < 1000 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, unit);
}

std::string duration_text(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

int terminal_columns() {
  if (isatty(STDOUT_FILENO) != 1) return 0;
  if (const int columns = columns_of(STDOUT_FILENO); columns > 0) return columns;
  const int launcher =
      open(fmt::format("/proc/{}/fd/1", getppid()).c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (launcher < 0) return 0;
  const int columns = columns_of(launcher);
  close(launcher);
  return columns;
}

Console& Console::of_process() {
  static Console console(0);
  return console;
}

void Console::line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const std::string shown = without_controls(text);
  const std::string out = bar_.empty() ? shown + '\n' : erase_line + shown + '\n' + bar_;
  write_fully(STDOUT_FILENO, out);
}

void Console::bar(const std::string& text) {
  const std::lock_guard lock(mutex_);
  const int columns = columns_;
  if (columns == 0) return;
  std::string shown = without_controls(
      text.substr(0, static_cast<std::size_t>(columns - 1)));  // a wrapped line cannot be erased
  if (shown == bar_) return;
  bar_ = std::move(shown);
  write_fully(STDOUT_FILENO, erase_line + bar_);
}

void Console::erase_bar() noexcept {
  const std::unique_lock lock(mutex_,
                              std::try_to_lock);  // what fails in the middle of a line is to be told too
  if (!lock.owns_lock() || bar_.empty()) return;
  bar_.clear();
  write_fully(STDOUT_FILENO, erase_line);
}

}  // namespace flotilla
