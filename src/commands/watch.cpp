// SPDX-License-Identifier: Apache-2.0
#include "src/commands/watch.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/commands/subcommand.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/files/run_lock.hpp"
#include "src/job/slurm.hpp"
#include "src/observe/console.hpp"
#include "src/observe/failure_report.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

namespace {

constexpr double min_quiet_s = 10.0;
constexpr double quiet_intervals = 5.0;

/// The inode that a path leads to; 0: there is no such file.
std::uint64_t identity_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// @param holder lock_holder() of the run's folder; empty: not known
std::string starting(const std::string& holder) {
  return cat("the run", holder.empty() ? "" : " (" + holder + ")",
             " is starting: it stages or reads data, or compares its ranks");
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

/// Calls `use` with each line that is whole and was not read before, in blocks: files may be larger than
/// memory.
void RunWatch::read_new(const std::function<void(std::string_view)>& use) {
  constexpr std::size_t block_bytes = std::size_t{4} << 20;
  const std::string path = folder_ + "/metrics.jsonl";
  const std::uint64_t id = identity_of(path);
  if (id == 0) return;
  const File file = File::open(path);
  if (id != std::exchange(file_id_, id) || file.size() < read_bytes_) read_bytes_ = 0;
  std::string text;  // Text of the file from read_bytes_ on
  for (bool more = true; more;) {
    const std::size_t kept = text.size();
    text.resize(kept + block_bytes);
    const std::int64_t begin = read_bytes_ + static_cast<std::int64_t>(kept);
    const std::size_t got = file.read_some(begin, std::as_writable_bytes(std::span(text).subspan(kept)));
    text.resize(kept + got);
    more = got == block_bytes;
    const std::size_t whole = text.find_last_of('\n') + 1;
    for (std::size_t at = 0, end = 0; at < whole; at = end + 1) {
      end = text.find('\n', at);
      use(std::string_view(text).substr(at, end - at));
    }
    read_bytes_ += static_cast<std::int64_t>(whole);
    text.erase(0, whole);
  }
}

/// The last line of each kind that metrics.jsonl holds, in their order. Of steps only the last two before
/// another event are parsed.
std::vector<ReadReport> RunWatch::read_first() {
  std::vector<ReadReport> reports;
  std::array<std::string, 2> steps;  // The last ones, not yet taken
  const auto add = [&](std::string_view line) {
    auto read = read_metrics_line(line);
    if (!read) return;
    take(*read);
    std::erase_if(reports,
                  [&](const ReadReport& other) { return other.report.index() == read->report.index(); });
    reports.push_back(std::move(*read));
  };
  const auto add_steps = [&] {
    for (std::string& line : steps)
      if (!line.empty()) add(std::exchange(line, {}));
  };
  read_new([&](std::string_view line) {
    if (line.starts_with(R"({"event":"step",)")) {
      steps[0].swap(steps[1]);
      steps[1] = line;
    } else {
      add_steps();
      add(line);
    }
  });
  add_steps();
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
  std::vector<ReadReport> reports;
  if (std::exchange(first_, false)) {
    reports = read_first();
  } else {
    read_new([&](std::string_view line) {
      auto read = read_metrics_line(line);
      if (!read) return;
      take(*read);
      reports.push_back(std::move(*read));
    });
  }
  for (const ReadReport& read : reports)
    news.lines.push_back(std::visit(
        [this](const auto& report) {
          if constexpr (requires { short_line(*run_, report); })
            return short_line(run_.value_or(StartReport()), report);
          else
            return console_line(report);
        },
        read.report));
  const std::optional<Failure> failure = read_failure(folder_, start_s_);
  if (failure || end_) {
    // A process that holds the folder is about to leave it, or starts the next attempt.
    const std::string holder = lock_holder(folder_).value_or("");
    if (holder.empty()) {
      if (failure) news.lines.push_back(failure_line(*failure));
      news.exit_code = failure ? failure->exit_code : exit_code_of_reason(end_->reason);
    } else {
      news.waiting = starting(holder);
    }
    return news;
  }
  if (run_ && step_) {
    LiveStep now = live_step(*step_);
    if (step_->step > run_->first_step)
      now.seconds_per_step = (line_s_ - start_s_) / static_cast<double>(step_->step - run_->first_step);
    news.live = live_line(*run_, now, columns);
  }
  news.waiting = what_is_missing(now_s, news.quiet_s);
  return news;
}

/// The reason why the run does not write its next line; empty: there is none.
std::string RunWatch::what_is_missing(double now_s, double& quiet_s) {
  if (!is_there(folder_)) return cat("waiting for ", folder_, ", which is not there yet", queue());
  if (run_ && now_s - line_s_ < std::max(min_quiet_s, quiet_intervals * interval_s_)) return "";
  const std::optional<std::string> holder = lock_holder(folder_);
  if (!holder || !holder->empty()) {
    quiet_s = run_ ? now_s - line_s_ : 0.0;
    if (!run_) return starting(holder.value_or(""));
    return cat("no new line of the run", holder && !holder->empty() ? cat(" (", *holder, ")") : "");
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

namespace {

struct WatchArguments {
  std::string folder;  ///< run.output of the run, or a folder that is not there yet
  bool once = false;   ///< Print where the run stands, and end
};

constexpr std::chrono::milliseconds between_news{500};
constexpr std::chrono::seconds between_questions{15};  // to Slurm, which many users ask
constexpr int columns_of_a_file = 160;

/// slurm_jobs_of_user(), asked at most every 15 s.
class JobQueue {
 public:
  std::vector<std::string> operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (!asked_at_ || now - *asked_at_ >= between_questions) {
      jobs_ = slurm_jobs_of_user();
      asked_at_ = now;
    }
    return jobs_;
  }

 private:
  std::vector<std::string> jobs_;
  std::optional<std::chrono::steady_clock::time_point> asked_at_;
};

/// Prints what the run in a folder reports, until it ends; on a terminal with a last line that is renewed.
/// The run may be on other hosts, or queued.
/// @returns the run's exit code; with `once` 0 while it runs
int watch(const WatchArguments& arguments) {
  std::signal(SIGPIPE, SIG_DFL);  // `flotilla watch RUN | head` ends with its reader
  Console& console = Console::of_process();
  console.use_terminal();
  const bool on_terminal = console.columns() > 0 && !arguments.once;
  RunWatch run(arguments.folder, JobQueue());
  std::string said;
  for (;; std::this_thread::sleep_for(between_news)) {
    const RunNews news = run.look(on_terminal ? console.columns() : columns_of_a_file, seconds_since_epoch());
    for (const std::string& line : news.lines) console.line(line);
    if (news.exit_code) {
      console.erase_bar();
      return *news.exit_code;
    }
    if (on_terminal) {
      const std::string quiet = news.quiet_s > 0.0 ? cat(" for ", duration_text(news.quiet_s)) : "";
      console.bar(news.waiting.empty() ? news.live : news.waiting + quiet);
    } else if (news.waiting != said) {
      if (!news.waiting.empty()) console.line(news.waiting);
      said = news.waiting;
    }
    if (arguments.once) {
      if (!news.live.empty()) console.line(news.live);
      return exit_done;
    }
  }
}

}  // namespace

Subcommand watch_command() {
  return SubcommandOf<WatchArguments>{
      .name = "watch",
      .help = "Show where a run stands, until it ends; from any host",
      .add_options =
          [](CLI::App& command, WatchArguments& arguments, Positionals& /*positionals*/) {
            command
                .add_option("RUN", arguments.folder,
                            "The run's folder (run.output); it need not be there yet")
                ->required();
            command.add_flag("--once", arguments.once, "Print where the run stands, and end");
          },
      .run_alone = watch,
  };
}

}  // namespace flotilla
