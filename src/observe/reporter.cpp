// SPDX-License-Identifier: Apache-2.0
#include "src/observe/reporter.hpp"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/observe/console.hpp"
#include "src/observe/metrics_file.hpp"
#include "src/observe/metrics_lines.hpp"
#include "src/observe/print.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

namespace {

/// A line "VmHWM:   1234 kB" of /proc/self/status, in bytes; 0 if it is not there.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::int64_t kilobytes = 0;
    if (word == key && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_live_lines{200};
constexpr std::size_t max_advice = 5;

std::unique_ptr<spdlog::logger> open_log(const std::string& path, bool append) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored)) std::filesystem::remove(path, ignored);  // leads elsewhere
  try {
    auto sink =
        std::make_shared<spdlog::sinks::basic_file_sink_mt>(path, !append);  // spdlog shares its sinks
    auto logger = std::make_unique<spdlog::logger>("flotilla", std::move(sink));
    logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l: %v");
    // Lines are rare, and the last ones before a kill are those that one looks for.
    logger->flush_on(spdlog::level::info);
    return logger;
  } catch (const spdlog::spdlog_ex& error) {
    throw UserError(cat("cannot write ", path, ": ", error.what()));
  }
}

}  // namespace

struct Reporter::Impl {
  ReporterOptions options;
  std::mutex mutex;
  std::unique_ptr<spdlog::logger> logger;
  std::unique_ptr<MetricsFile> metrics;  ///< Rank 0
  Console& console = Console::of_process();
  Clock::time_point next_live = Clock::time_point::min();
  std::set<std::string> warned;
  StartReport facts;
  std::string last_validation;  ///< Text of the last validation on the console
  std::string last_checkpoint;
  std::vector<std::pair<double, std::string>> advice;  ///< Cost in seconds, text
  Clock::time_point started = Clock::now();
  bool reported_start = false;
  std::vector<std::string> unwritten;  ///< Lines about this rank while it has no log

  bool speaks() const { return options.rank == 0; }
  LogLines log_lines() const { return speaks() ? LogLines::all : options.log_lines; }

  std::string log_path() const {
    return fmt::format("{}/log/rank-{:04}.log", options.folder,
                       options.job_rank < 0 ? options.rank : options.job_rank);
  }

  void open() {
    logger = open_log(log_path(), options.append);
    // spdlog's own handler would write lines that do not begin with "flotilla:".
    logger->set_error_handler([told = false](const std::string& message) mutable {
      if (!told) print_warning("cannot write the log: " + message);
      told = true;
    });
  }

  void write(const std::string& line, spdlog::level::level_enum level = spdlog::level::info) {
    logger->log(level, spdlog::string_view_t(line.data(), line.size()));
  }

  /// A line that all ranks have.
  void to_log(const std::string& line) {
    if (log_lines() == LogLines::all) write(line);
  }

  void to_own_log(const std::string& line) {
    if (logger)
      write(line);
    else if (log_lines() == LogLines::own)
      unwritten.push_back(line);
  }

  void to_console(const std::string& line, Message kind) {
    if (speaks()) console.line(line, kind);
    to_log(line);
  }

  void to_warnings(const std::string& line) {
    if (!warned.insert(line).second) return;
    if (speaks()) print_warning(line);
    if (!logger) {
      if (log_lines() == LogLines::none || !reported_start) return;  // Warnings of the start are all ranks'.
      try {
        open();
      } catch (const UserError& error) {  // Training goes on.
        options.log_lines = LogLines::none;
        print_warning(error.what());
        return;
      }
      for (const std::string& own : std::exchange(unwritten, {})) write(own);
    }
    write(line, spdlog::level::warn);
  }

  /// @param text the console's line, unless it shows all
  template <class Report>
  void to_files_and_console(const Report& report, const std::string& text, Message kind) {
    const int error = metrics ? metrics->write(metrics_line(report, seconds_since_epoch())) : 0;
    if (error != 0)
      to_warnings(cat("cannot write ", metrics->path(), ": ", system_message(error), "; training goes on"));
    const std::string line = console_line(report);
    to_log(line);
    if (speaks()) console.line(console.verbosity() == Verbosity::verbose ? line : text, kind);
  }

  /// The notes on performance, unless they were shown as they came.
  void show_advice() {
    if (advice.empty() || console.verbosity() == Verbosity::verbose || !speaks()) return;
    std::ranges::stable_sort(advice, std::greater(), &std::pair<double, std::string>::first);
    advice.resize(std::min(advice.size(), max_advice));
    console.line("performance notes", Message::advice);
    for (const auto& [cost_s, text] : advice) console.line("  " + text, Message::advice);
  }

  void show(LiveStep now) {
    const std::int64_t done_now = now.step - facts.first_step;
    if (console.columns() == 0 || done_now <= 0) return;
    next_live = Clock::now() + between_live_lines;
    now.seconds_per_step =
        std::chrono::duration<double>(Clock::now() - started).count() / static_cast<double>(done_now);
    console.bar(live_line(facts, now, console.columns()));
  }
};

Reporter::Reporter(const ReporterOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  if (options.folder.empty()) {
    impl_->logger = std::make_unique<spdlog::logger>("flotilla");  // without a sink
    return;
  }
  std::error_code ignored;  // What is removed need not be there.
  if (impl_->speaks()) {
    make_output_folder(options.folder);
    std::filesystem::remove(options.folder + "/failure.json", ignored);
    for (const char* file : {"/failure.json", "/deck.toml", "/metrics.jsonl"})
      remove_unfinished(options.folder + file);
    if (!options.resolved_deck.empty()) {
      write_text_file_atomically(options.folder + "/deck.toml", options.resolved_deck);
    }
    const std::string path = options.folder + "/metrics.jsonl";
    impl_->metrics = options.append ? std::make_unique<MetricsFile>(path, options.resumed_step)
                                    : std::make_unique<MetricsFile>(path);
  }
  if (impl_->log_lines() == LogLines::all)
    impl_->open();
  else if (!options.append)
    std::filesystem::remove(impl_->log_path(), ignored);
}

Reporter::~Reporter() {
  if (impl_->speaks()) impl_->console.erase_bar();
}

void Reporter::start(const StartReport& report) {
  const std::lock_guard lock(impl_->mutex);
  impl_->facts = report;
  impl_->started = Clock::now();
  impl_->reported_start = true;
  impl_->to_files_and_console(report, console_line(report), Message::plan);
}

void Reporter::step(const StepReport& report) {
  const std::lock_guard lock(impl_->mutex);
  const bool has_bar = impl_->console.columns() > 0;  // which shows the same
  impl_->to_files_and_console(report, short_line(impl_->facts, report),
                              has_bar ? Message::detail : Message::progress);
}

bool Reporter::wants_live() const {
  return impl_->speaks() && impl_->console.columns() > 0 && Clock::now() >= impl_->next_live;
}

void Reporter::live(const LiveStep& now) {
  const std::lock_guard lock(impl_->mutex);
  impl_->show(now);
}

void Reporter::validation(const ValidationReport& report) {
  const std::lock_guard lock(impl_->mutex);
  impl_->last_validation = short_line(impl_->facts, report);
  impl_->to_files_and_console(report, impl_->last_validation, Message::progress);
}

void Reporter::checkpoint(const CheckpointReport& report) {
  const std::lock_guard lock(impl_->mutex);
  impl_->last_checkpoint = report.path;
  impl_->to_files_and_console(report, console_line(report), Message::detail);
}

void Reporter::end(const EndReport& report) {
  const std::lock_guard lock(impl_->mutex);
  Console& console = impl_->console;
  if (impl_->speaks()) {
    console.erase_bar();
    if (console.verbosity() == Verbosity::quiet && !impl_->last_validation.empty())
      console.line(impl_->last_validation, Message::result);
    if (console.verbosity() != Verbosity::verbose && !impl_->last_checkpoint.empty())
      console.line("checkpoint   " + impl_->last_checkpoint, Message::result);
  }
  if (const std::string line = communication_line(report); !line.empty())
    impl_->to_console(line, Message::progress);
  const bool goes_on = exit_code_of_reason(report.reason) == exit_stopped;
  impl_->to_files_and_console(
      report, console_line(report) + (goes_on ? "; run the same command again to resume" : ""),
      Message::result);
  impl_->show_advice();
  if (impl_->metrics && impl_->metrics->lost_lines() > 0) {
    throw UserError(cat(impl_->metrics->path(), ": ", impl_->metrics->lost_lines(),
                        " lines could not be written (see the warning); the checkpoints are not concerned"));
  }
}

void Reporter::say(const std::string& line, Message kind) {
  const std::lock_guard lock(impl_->mutex);
  impl_->to_console(line, kind);
}

void Reporter::advise(double cost_s, const std::string& line) {
  const std::lock_guard lock(impl_->mutex);
  impl_->advice.emplace_back(cost_s, line);
  impl_->to_console(line, Message::detail);
}

void Reporter::warn(const std::string& line) {
  const std::lock_guard lock(impl_->mutex);
  impl_->to_warnings(line);
}

void Reporter::log(const std::string& line) {
  const std::lock_guard lock(impl_->mutex);
  impl_->to_own_log(line);
}

std::int64_t peak_memory_bytes() {
  return status_bytes("VmHWM:");
}
std::int64_t resident_memory_bytes() {
  return status_bytes("VmRSS:");
}

}  // namespace flotilla
