// SPDX-License-Identifier: Apache-2.0
#include "src/observe/console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "src/files/file.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

/// The figure for the console; nothing where the report has none, or the model has too few classes for it.
std::optional<double> shown_top5(const StepReport& report) {
  const std::optional<double> share = report.accuracy_top5;
  return share && find_metric("accuracy_top5")->is_shown(report.classes, *share) ? share : std::nullopt;
}

void add_figure(std::string& line, const Metric& metric, double value) {
  switch (metric.shown) {
    case Shown::no: return;
    case Shown::four_digits: line += fmt::format(", {}: {:.4f}", metric.name_on_console(), value); return;
    case Shown::five_digits: line += fmt::format(", {}: {:.5f}", metric.name_on_console(), value); return;
    case Shown::significant: line += fmt::format(", {}: {:.6g}", metric.name_on_console(), value); return;
  }
}

/// Calls `use` with the figures except the loss; for a model of clicks only with those of clicks, which say
/// more than its accuracies.
template <class Use>
void for_each_figure(const ValidationReport& report, const Use& use) {
  const bool clicks = compared_metric(report.figures).of == MetricOf::clicks;
  for (const Metric& metric : metrics()) {
    const auto found = report.figures.find(metric.key);
    if (found == report.figures.end() || metric.of == MetricOf::all) continue;
    if (clicks && metric.of != MetricOf::clicks) continue;
    if (!metric.is_shown(report.classes, found->second)) continue;
    use(metric, found->second);
  }
}

void add_averages(std::string& line, const ValidationReport& report) {
  for (const Metric& metric : metrics())
    if (const auto found = report.averages.find(metric.key);
        found != report.averages.end() && metric.shown_averaged) {
      if (metric.of == MetricOf::all)
        line += fmt::format(", average's {}: {:.5f}", metric.key, found->second);
      else
        add_figure(line, metric, found->second);
    }
}

/// The verbosity at which a kind of message is shown, and its format.
struct MessageKind {
  Verbosity from;             ///< Shown by this and all that show more
  const char* colour;         ///< On a terminal; empty: none
  std::size_t max_letters{};  ///< Maximum length unless everything is shown; 0: no limit
};

/// The kinds of messages, in the order of Message.
constexpr MessageKind message_kinds[] = {
    {Verbosity::quiet, "\033[1m"},        // result
    {Verbosity::normal, ""},              // progress
    {Verbosity::normal, ""},              // note
    {Verbosity::normal, "\033[2m", 100},  // plan
    {Verbosity::normal, "\033[33m"},      // advice
    {Verbosity::verbose, ""},             // detail
};

const MessageKind& kind_of(Message message) {
  return message_kinds[static_cast<std::size_t>(message)];
}

/// The text's first letters (of UTF-8), the last one "…" where it has more.
std::string cut(const std::string& text, std::size_t max_letters) {
  std::size_t letters = 0;
  std::size_t last = 0;  // Begin of the last letter that may stay
  for (std::size_t at = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) continue;
    if (++letters == max_letters) last = at;
    if (letters > max_letters) return text.substr(0, last) + "…";
  }
  return text;
}

bool wants_colours() {
  const char* const refused = std::getenv("NO_COLOR");
  return refused == nullptr || *refused == '\0';
}

/// A figure with as many digits as a reader compares.
std::string figure_text(double value) {
  return std::abs(value) >= 1000.0 && std::abs(value) < 1e9 ? fmt::format("{:.0f}", value)
                                                            : fmt::format("{:.4g}", value);
}

std::string figure_text(const Metric& metric, double value) {
  return fmt::format("{} {}", metric.name_on_console(),
                     metric.unit == "fraction" ? fmt::format("{:.2f} %", 100.0 * value) : figure_text(value));
}

/// "epoch 3 of 10"; without an end that is known, "epoch 3". @param epoch from 0 @param batch in it
std::string epoch_text(const StartReport& run, std::int64_t step, std::int64_t epoch, std::int64_t batch) {
  if (run.steps == 0 || run.steps_per_epoch == 0) return fmt::format("epoch {}", epoch + 1);
  const std::int64_t left_of_epoch = std::max<std::int64_t>(run.steps_per_epoch - batch, 0);
  const std::int64_t behind_it = std::max<std::int64_t>(run.steps - step - left_of_epoch, 0);
  return fmt::format("epoch {} of {}", epoch + 1,
                     epoch + 1 + (behind_it + run.steps_per_epoch - 1) / run.steps_per_epoch);
}

/// Whether the best validation so far is this one, not another one of its epoch.
bool is_best(const ValidationReport& report) {
  if (*report.best_epoch != report.epoch) return false;
  for (const Figures* figures : {&report.averages, &report.figures})  // as BestValidation compares them
    if (const auto found = figures->find(*report.best_of); found != figures->end())
      return found->second == *report.best;
  return true;
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
    if (const auto top5 = shown_top5(report)) line += fmt::format(", acc5: {:.5f}", *top5);
  }
  if (report.loss_scale) line += fmt::format(", loss_scale: {:.6g}", *report.loss_scale);
  if (report.skipped_steps && *report.skipped_steps > 0)
    line += fmt::format(", skipped: {}", *report.skipped_steps);
  line += fmt::format(", {:.{}f} samples/s", report.samples_per_s, report.samples_per_s < 100.0 ? 2 : 0);
  if (report.loss_mean) line += fmt::format(", mean loss: {:.5f}", *report.loss_mean);
  return line + fmt::format(", lr: {:.6g}", report.learning_rate);
}

std::string console_line(const ValidationReport& report) {
  const auto loss = report.figures.find("loss");
  std::string line = fmt::format("[Epoch {}, validation] loss: {:.5f}", report.epoch,
                                 loss == report.figures.end() ? 0.0 : loss->second);
  for_each_figure(report, [&](const Metric& metric, double value) { add_figure(line, metric, value); });
  add_averages(line, report);
  line += fmt::format(", {} samples", report.samples);
  if (report.epoch_s) line += ", epoch: " + duration_text(*report.epoch_s);
  if (report.best && report.best_of && report.best_epoch) {
    const Metric* metric = find_metric(*report.best_of);
    line += fmt::format(", best {}: {:.5f} in epoch {}",
                        metric == nullptr ? *report.best_of : metric->name_on_console(), *report.best,
                        *report.best_epoch);
  }
  return line;
}

std::string short_line(const StartReport& run, const StepReport& report) {
  std::string line = epoch_text(run, report.step, report.epoch, report.batch);
  line += run.steps > 0 ? fmt::format(", step {}/{}", report.step, run.steps)
                        : fmt::format(", step {}", report.step);
  line += ", loss " + figure_text(report.loss_mean.value_or(report.loss));
  const auto add = [&](const char* key, const std::optional<double>& value) {
    if (value) line += ", " + figure_text(*find_metric(key), *value);
  };
  add("auc", report.auc);
  if (!report.auc) add("accuracy_top1", report.accuracy_top1);
  if (!report.auc) add("accuracy_top5", shown_top5(report));
  if (report.skipped_steps && *report.skipped_steps > 0)
    line += fmt::format(", {} skipped", *report.skipped_steps);
  return line + fmt::format(", {} samples/s, lr {}", figure_text(report.samples_per_s),
                            figure_text(report.learning_rate));
}

std::string short_line(const StartReport& run, const ValidationReport& report) {
  const auto loss = report.figures.find("loss");
  std::string line =
      fmt::format("{}, validation: loss {}", epoch_text(run, report.step, report.epoch, run.steps_per_epoch),
                  figure_text(loss == report.figures.end() ? 0.0 : loss->second));
  for_each_figure(report, [&](const Metric& metric, double value) {
    if (metric.shown != Shown::no) line += ", " + figure_text(metric, value);
  });
  for (const auto& [key, value] : report.averages)
    if (const Metric* metric = find_metric(key); metric != nullptr && metric->shown_averaged)
      line += ", averaged " + figure_text(*metric, value);
  if (report.epoch_s) line += ", " + duration_text(*report.epoch_s);
  if (!report.best || !report.best_of || !report.best_epoch) return line;
  const Metric* metric = find_metric(*report.best_of);
  if (is_best(report)) return line + ", the best so far";
  return line +
         fmt::format(", best {} in epoch {}",
                     metric == nullptr ? figure_text(*report.best) : figure_text(*metric, *report.best),
                     *report.best_epoch + 1);
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

std::string communication_line(const EndReport& report) {
  std::string kinds;
  for (const auto& [kind, bytes] : report.sent)
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", kind, bytes_text(bytes));
  if (kinds.empty()) return "";
  return fmt::format("communication: worker 0 sent {} and waited {}", kinds,
                     duration_text(report.exposed_comm_s.value_or(0.0)));
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

void Console::line(const std::string& text, Message message) {
  const MessageKind& kind = kind_of(message);
  if (verbosity_ < kind.from) return;
  const bool cuts = kind.max_letters > 0 && verbosity_ < Verbosity::verbose;
  const std::lock_guard lock(mutex_);
  std::string shown = without_controls(cuts ? cut(text, kind.max_letters) : text);
  if (columns_ > 0 && *kind.colour != '\0' && wants_colours()) shown = kind.colour + shown + "\033[0m";
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
                              std::try_to_lock);  // a failure in the middle of a line must be reported too
  if (!lock.owns_lock() || bar_.empty()) return;
  bar_.clear();
  write_fully(STDOUT_FILENO, erase_line);
}

namespace {

constexpr std::size_t widest_bar = 24;
constexpr std::size_t narrowest_bar = 4;

/// One field of a line: fields are shown in their order, and left out by falling rank.
struct Field {
  int rank;
  std::string text;
};

std::string joined(const std::vector<Field>& fields, int highest_rank) {
  std::string text;
  for (const Field& field : fields)
    if (field.rank <= highest_rank) text += (text.empty() ? "" : ", ") + field.text;
  return text;
}

/// The fields that fit into `width` characters; those of rank 0 in any case.
std::string fitted(const std::vector<Field>& fields, std::size_t width) {
  int highest = std::ranges::max(fields, {}, &Field::rank).rank;
  std::string text = joined(fields, highest);
  while (highest > 0 && text.size() > width) text = joined(fields, --highest);
  return text;
}

std::size_t width_of(int columns) {
  return static_cast<std::size_t>(std::max(columns - 1, 0));
}

std::string with_bar(double share, const std::vector<Field>& fields, int columns) {
  const std::size_t width = width_of(columns);
  const double shown = std::clamp(share, 0.0, 1.0);
  const std::string head = fmt::format("{:3} % ", static_cast<int>(std::floor(100.0 * shown)));
  const std::string text = fitted(fields, width - std::min(width, head.size()));
  const std::size_t taken = head.size() + text.size() + 3;  // "[" and "] "
  if (width < taken + narrowest_bar) return (head + text).substr(0, width);
  const std::size_t cells = std::min(width - taken, widest_bar);
  const auto full = static_cast<std::size_t>(static_cast<double>(cells) * shown);
  return head + '[' + std::string(full, '#') + std::string(cells - full, '.') + "] " + text;
}

/// The line of a run that a time limit ends: neither its number of steps nor the rest of them is known.
std::string line_without_end(const LiveStep& now, int columns) {
  std::vector<Field> fields{
      {1, fmt::format("epoch {}", now.epoch + 1)},
      {0, fmt::format("step {}", now.step)},
      {0, fmt::format("loss {:.5f}", now.loss)},
      {2, fmt::format("{:.{}f} samples/s", now.samples_per_s, now.samples_per_s < 100.0 ? 2 : 0)}};
  if (now.waiting) fields.push_back({3, fmt::format("waiting {:.0f} %", 100.0 * *now.waiting)});
  return fitted(fields, width_of(columns)).substr(0, width_of(columns));
}

}  // namespace

std::string line_with_bar(double share, const std::vector<std::string>& fields, int columns) {
  std::vector<Field> ranked;
  for (const std::string& text : fields) ranked.push_back({static_cast<int>(ranked.size()), text});
  return with_bar(share, ranked, columns);
}

std::string live_line(const StartReport& run, const LiveStep& now, int columns) {
  if (run.steps == 0) return line_without_end(now, columns);
  const auto left = static_cast<double>(std::max<std::int64_t>(run.steps - now.step, 0));
  const std::int64_t left_of_epoch = std::max<std::int64_t>(run.steps_per_epoch - now.batch, 0);
  std::vector<Field> fields{
      {3, epoch_text(run, now.step, now.epoch, now.batch)},
      {1, fmt::format("step {}/{}", now.step, run.steps)},
      {2, fmt::format("loss {:.5f}", now.loss)},
      {4, fmt::format("{:.{}f} samples/s", now.samples_per_s, now.samples_per_s < 100.0 ? 2 : 0)}};
  if (left > static_cast<double>(left_of_epoch))
    fields.push_back(
        {6, fmt::format("epoch {} left", duration_text(static_cast<double>(left_of_epoch) * now.step_s))});
  fields.push_back(
      {0, fmt::format("run {} left", duration_text(left * now.seconds_per_step.value_or(now.step_s)))});
  if (now.waiting) fields.push_back({5, fmt::format("waiting {:.0f} %", 100.0 * *now.waiting)});
  return with_bar(static_cast<double>(now.step) / static_cast<double>(run.steps), fields, columns);
}

}  // namespace flotilla
