// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/faults/environment.hpp"
#include "tests/faults/failures.hpp"
#include "tests/runs/program.hpp"

// Lets one call after another fail on one rank, of every place in the program that makes such calls, for
// every strategy, in new runs and in runs that resume: all ranks must end in time, with a line that reports
// that failure, and the next run must resume from the newest checkpoint that was reported. Prints a line for
// each attempt and a table; exit code 1 if anything was wrong, 2 if no call failed.

namespace flotilla::test {
namespace {

struct Options {
  std::string strategy{};
  std::string call{};
  std::string without{};
  std::string phase{};
  int rank = -1;
  int every = 1;
  double minutes = 1e9;
};

void declare(CLI::App& program, Options& options) {
  program.add_option("--strategy", options.strategy, "a part of its name in tests/faults/ways.cpp");
  program.add_option("--call", options.call, "a word of fail_at_call.cpp's");
  program.add_option("--without", options.without, "leaves out calls of that word");
  program.add_option("--phase", options.phase)->check(CLI::IsMember({"start", "resume"}));
  program.add_option("--rank", options.rank, "on which calls fail")->check(CLI::Range(0, 1000));
  program.add_option("--every", options.every, "of so many attempts one")->check(CLI::PositiveNumber);
  program.add_option("--minutes", options.minutes, "after which no more are made")
      ->check(CLI::PositiveNumber);
}

/// The first server and the first worker, and one that is not the first of its kind.
std::vector<int> ranks_to_try(const Way& way) {
  const int last = way.ranks.front() - 1;
  return way.servers > 0 && last > 2 ? std::vector<int>{0, 1, 2, last} : std::vector<int>{0, last};
}

/// The counts for a strategy, or for a kind of call.
struct Tally {
  int attempts = 0;
  int fired = 0;
  int told = 0;
  int tolerated = 0;  ///< The run went on without a word
  int wrong = 0;
  double longest_s = 0.0;
};

class Sweep {
 public:
  explicit Sweep(const Options& options) : options_(options), begin_(std::chrono::steady_clock::now()) {
    clicks_ = folder_.path("clicks.tsv");
    const Result made =
        run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "2000", "--output", clicks_});
    if (made.exit_code != 0) throw std::runtime_error(made.errors);
  }

  int run_all() {
    for (const Way& way : all_ways(clicks_))
      if (contains(way.name, options_.strategy)) sweep(way);
    print_table("strategy", of_strategies_);
    print_table("call", of_calls_);
    if (fired_ == 0) {
      std::fprintf(stderr, "sweep_failures: no call failed in %d attempts\n", seen_);
      return 2;
    }
    return wrong_ == 0 ? 0 : 1;
  }

 private:
  bool time_is_over() const {
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin_;
    return gone.count() > 60 * options_.minutes;
  }

  void sweep(const Way& way) {
    const FailureSweep failures(way, folder_.path(std::to_string(of_strategies_.size())));
    std::set<std::string> known;  // places that the other phase has tried
    for (const auto phase : {FailureSweep::Phase::start, FailureSweep::Phase::resume}) {
      const char* const name = phase == FailureSweep::Phase::start ? "start" : "resume";
      if (time_is_over()) return;
      if (!options_.phase.empty() && options_.phase != name) continue;
      for (const FailingCall& call : failures.calls(phase, ranks_to_try(way))) {
        if (!options_.call.empty() && options_.call != call.word) continue;
        if (options_.without == call.word) continue;
        if (options_.rank >= 0 && options_.rank != call.rank) continue;
        if (!known.insert(std::to_string(call.rank) + call.word + call.place).second) continue;
        if (seen_++ % options_.every != 0) continue;
        if (time_is_over()) return;
        note(way.name, name, call, failures.fail(phase, call));
      }
    }
  }

  void note(const std::string& way, const char* phase, const FailingCall& call, const Attempt& attempt) {
    for (Tally* const tally : {&of_strategies_[way], &of_calls_[call.word]}) {
      ++tally->attempts;
      if (attempt.fired) ++tally->fired;
      if (!attempt.said.empty()) ++tally->told;
      if (attempt.fired && attempt.said.empty() && attempt.exit_code == 0) ++tally->tolerated;
      if (!attempt.wrong.empty()) ++tally->wrong;
      tally->longest_s = std::max(tally->longest_s, attempt.seconds);
    }
    if (!attempt.wrong.empty()) ++wrong_;
    if (attempt.fired) ++fired_;
    std::printf("%-17s %-6s %-26s %-10s exit %3d %6.2f s  %s%s\n", way.c_str(), phase, call.text().c_str(),
                call.site.c_str(), attempt.exit_code, attempt.seconds, call.about.c_str(),
                attempt.fired ? "" : "  (did not come)");
    if (!attempt.said.empty()) std::printf("      %s\n", attempt.said.c_str());
    if (attempt.fired && attempt.said.empty()) print_lines(attempt.errors);
    if (!attempt.wrong.empty()) std::printf("WRONG %s\n%s\n", attempt.wrong.c_str(), attempt.errors.c_str());
    std::fflush(stdout);
  }

  /// What Flotilla said.
  static void print_lines(const std::string& errors) {
    std::istringstream text(errors);
    for (std::string line; std::getline(text, line);)
      if (line.starts_with("flotilla: ")) std::printf("      (no word of it) %s\n", line.c_str());
  }

  static void print_table(const char* what, const std::map<std::string, Tally>& tallies) {
    std::printf("\n%-18s %9s %7s %6s %10s %7s %10s\n", what, "attempts", "failed", "told", "tolerated",
                "wrong", "longest/s");
    for (const auto& [name, tally] : tallies)
      std::printf("%-18s %9d %7d %6d %10d %7d %10.2f\n", name.c_str(), tally.attempts, tally.fired,
                  tally.told, tally.tolerated, tally.wrong, tally.longest_s);
  }

  Options options_;
  std::chrono::steady_clock::time_point begin_;
  TemporaryFolder folder_;
  std::string clicks_;
  int seen_ = 0;
  int wrong_ = 0;
  int fired_ = 0;
  std::map<std::string, Tally> of_strategies_;
  std::map<std::string, Tally> of_calls_;
};

}  // namespace
}  // namespace flotilla::test

int main(int argc, char** argv) {
  CLI::App program("Lets each call fail once");
  flotilla::test::Options options;
  flotilla::test::declare(program, options);
  CLI11_PARSE(program, argc, argv);
  try {
    flotilla::test::complete_environment();
    return flotilla::test::Sweep(options).run_all();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sweep_failures: %s\n", error.what());
    return 2;
  }
}
