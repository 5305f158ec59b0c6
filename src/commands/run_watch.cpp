// SPDX-License-Identifier: Apache-2.0
#include "src/commands/run_watch.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "kernels/error.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/files/run_lock.hpp"
#include "src/observe/console.hpp"
#include "src/observe/failure_report.hpp"

namespace flotilla {

namespace {

constexpr double least_quiet_s = 10.0;
constexpr double quiet_intervals = 5.0;

/// Which file a path leads to; 0: none.
std::uint64_t identity_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// failure.json of a run's folder. Empty where there is none, or none that was written since `begin_s`.
std::optional<Failure> failure_since(const std::string& folder, double begin_s) {
  const std::string path = folder + "/failure.json";
  if (!is_there(path)) return std::nullopt;
  const auto json = nlohmann::json::parse(File::open(path).text(), nullptr, false);
  if (!json.is_object() || json.value("time", 0.0) < begin_s) return std::nullopt;
  return Failure{.rank = json.value("rank", 0),
                 .ranks = json.value("ranks", 1),
                 .host = json.value("host", ""),
                 .step = json.value("step", std::int64_t{-1}),
                 .what = json.value("what", ""),
                 .exit_code = json.value("exit_code", exit_library_error)};
}

LiveStep live_step(const StepReport& report) {
  return {.step = report.step,
          .epoch = report.epoch,
          .batch = report.batch,
          .loss = report.loss,
          .samples_per_s = report.samples_per_s,
          .step_s = report.step_s,
          .waiting = report.step_s > 0.0
                         ? std::optional((report.exposed_comm_s + report.input_wait_s) / report.step_s)
                         : std::nullopt};
}

}  // namespace

RunWatch::RunWatch(std::string folder, std::function<std::vector<std::string>()> jobs)
    : folder_(std::move(folder)), jobs_(std::move(jobs)) {}

/// Whole lines only: the last one may be half written.
std::vector<ReadReport> RunWatch::read_new() {
  const std::string path = folder_ + "/metrics.jsonl";
  const std::uint64_t id = identity_of(path);
  if (id == 0) return {};
  const File file = File::open(path);
  if (id != std::exchange(file_id_, id) || file.size() < read_bytes_) read_bytes_ = 0;
  std::string text(static_cast<std::size_t>(file.size() - read_bytes_), '\0');
  text.resize(file.read_some(read_bytes_, std::as_writable_bytes(std::span(text))));
  text.resize(text.find_last_of('\n') + 1);
  read_bytes_ += std::ssize(text);
  std::vector<ReadReport> reports;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    if (auto read = read_metrics_line(std::string_view(text).substr(begin, end - begin)))
      reports.push_back(std::move(*read));
  }
  return reports;
}

void RunWatch::take(const ReadReport& read) {
  if (const auto* start = std::get_if<StartReport>(&read.report)) {
    run_ = *start;
    start_s_ = read.time_s;
    step_.reset();
    end_.reset();
  }
  if (const auto* step = std::get_if<StepReport>(&read.report)) step_ = *step;
  if (const auto* end = std::get_if<EndReport>(&read.report)) end_ = *end;
  interval_s_ = read.time_s - line_s_;
  line_s_ = read.time_s;
}

RunNews RunWatch::look(int columns, double now_s) {
  RunNews news;
  const std::vector<ReadReport> reports = read_new();
  std::array<std::size_t, std::variant_size_v<decltype(ReadReport::report)>> last{};
  for (std::size_t i = 0; i < reports.size(); ++i) last.at(reports[i].report.index()) = i;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    take(reports[i]);
    if (first_ && last.at(reports[i].report.index()) != i) continue;
    news.lines.push_back(
        std::visit([](const auto& report) { return console_line(report); }, reports[i].report));
  }
  first_ = false;
  if (const auto failure = failure_since(folder_, start_s_)) {
    news.lines.push_back(failure_line(*failure));
    news.exit_code = failure->exit_code;
  } else if (end_) {
    news.exit_code = end_->reason == "stopped" || end_->reason == "time limit" ? exit_stopped : exit_done;
  }
  if (run_ && step_) {
    LiveStep now = live_step(*step_);
    if (step_->step > run_->first_step)
      now.seconds_per_step = (line_s_ - start_s_) / static_cast<double>(step_->step - run_->first_step);
    news.live = live_line(*run_, now, columns);
  }
  if (!news.exit_code) news.waiting = what_is_missing(now_s, news.quiet_s);
  return news;
}

/// What keeps the run from writing its next line; empty: nothing does.
std::string RunWatch::what_is_missing(double now_s, double& quiet_s) {
  if (!is_there(folder_)) return cat("waiting for ", folder_, ", which is not there yet", queue());
  if (run_ && now_s - line_s_ < std::max(least_quiet_s, quiet_intervals * interval_s_)) return "";
  const std::optional<std::string> holder = lock_holder(folder_);
  if (!holder || !holder->empty()) {
    quiet_s = run_ ? now_s - line_s_ : 0.0;
    const std::string who = holder && !holder->empty() ? cat(" (", *holder, ")") : "";
    return run_ ? cat("no new line of the run", who)
                : cat("the run", who, " is starting: it stages or reads data, or compares its ranks");
  }
  if (!run_) return cat("waiting for a run in ", folder_, ": no process holds it", queue());
  return cat("no process holds ", folder_, ": the run ended without its last line",
             step_ ? cat(", after step ", step_->step) : "",
             "; started again it resumes from its newest checkpoint", queue());
}

std::string RunWatch::queue() {
  std::string text;
  for (const std::string& job : jobs_()) text += "; " + job;
  return text;
}

}  // namespace flotilla
