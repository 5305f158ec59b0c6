// SPDX-License-Identifier: Apache-2.0
#include "src/commands/watch.hpp"

#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "src/commands/run_watch.hpp"
#include "src/job/slurm.hpp"
#include "src/observe/console.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

namespace {

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

}  // namespace

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

}  // namespace flotilla
