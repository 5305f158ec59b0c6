// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/failures.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "src/checkpoint/checkpoint.hpp"
#include "tests/faults/small_run.hpp"
#include "tests/runs/program.hpp"

namespace flotilla::test {

namespace fs = std::filesystem;

namespace {

constexpr int steps_before = 8;  ///< Steps of the run that makes the checkpoint to resume from
constexpr int steps = 16;
constexpr int steps_of_next_run = 20;
/// Start and run of a good one take 1 – 3 s on a machine with something else to do.
constexpr double watchdog_s = 5.0;
constexpr double patience_s = 25.0;

/// Words of a message that reports a failing call; any of them will do.
std::vector<std::string> signs_of(const FailingCall& call) {
  if (call.word == "memory") return {"out of memory", "out_of_memory", "Cannot allocate memory"};
  if (call.word == "map") return {"Cannot allocate memory", "out of memory"};
  if (call.word == "thread") return {"Resource temporarily unavailable"};
  if (call.word == "communicator" || call.word == "message")
    return {"MPI_ERR_NO_MEM", "Unable to allocate memory"};  // Open MPI's words, and MPICH's
  if (call.error == "ESTALE") return {"Stale file handle", "can't retrieve stat info"};
  if (call.error == "ENOSPC") return {"No space left on device", "can't retrieve stat info"};
  // HDF5 does not tell the reason of a failed fstat.
  return {"Input/output error", "can't retrieve stat info"};
}

/// The newest checkpoint in metrics.jsonl; 0: none. Its last line may be cut off.
int reported_step(const std::string& output) {
  std::istringstream text(read_file(output + "/metrics.jsonl"));
  std::string line;
  int newest = 0;
  while (std::getline(text, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.at("event") == "checkpoint") newest = json.at("step").get<int>();
  }
  return newest;
}

/// @returns what a run with a failing call did wrong; empty: nothing
std::string check_attempt(const Attempt& attempt, const std::string& output) {
  if (attempt.exit_code < 0)
    return "it still ran after " + std::to_string(static_cast<int>(patience_s)) + " s";
  if (attempt.exit_code == 4) return "it takes it for an error of its own";
  if (contains(attempt.errors, "is damaged and was passed over"))
    return "it takes what it cannot read for damaged";
  if (contains(attempt.errors, "nothing has moved")) return "it ended by the watchdog";
  if (attempt.exit_code != 0 && attempt.exit_code != 2 && attempt.exit_code != 3)
    return "exit code " + std::to_string(attempt.exit_code);
  if (attempt.exit_code != 0) return attempt.said.empty() ? "it does not say why" : "";
  if (attempt.said.empty() && reported_step(output) != steps)
    return "exit code 0, no word, and the last checkpoint is not there";
  return "";
}

}  // namespace

std::string FailingCall::text() const {
  return "rank " + std::to_string(rank) + ": " + word + " " + std::to_string(number) +
         (error.empty() ? "" : " " + error);
}

std::string FailingCall::plan() const {
  const std::string which = !place.empty() ? "@" + place : number > 0 ? std::to_string(number) : about;
  return std::to_string(rank) + " " + word + " " + which + " " + error;
}

std::string line_about(const FailingCall& call, const std::string& errors) {
  const std::vector<std::string> signs = signs_of(call);
  std::istringstream text(errors);
  std::string line;
  std::string warning;
  while (std::getline(text, line)) {
    if (!line.starts_with("flotilla: ") ||
        std::ranges::none_of(signs, [&](const std::string& sign) { return contains(line, sign); }))
      continue;
    if (!line.starts_with("flotilla: warning: ")) return line;
    if (warning.empty()) warning = line;
  }
  return warning;
}

std::int64_t first_step(const std::string& output) {
  const std::size_t line = output.find("resumed      from ");
  if (line == std::string::npos) return contains(output, "starting at step 0 of") ? 0 : -1;
  const std::string mark = ", step ";
  return std::stoll(output.substr(output.find(mark, line) + mark.size()));
}

FailureSweep::FailureSweep(Way way, std::string folder)
    : way_(std::move(way)), ranks_(way_.ranks.front()), folder_(std::move(folder)) {
  fs::create_directories(folder_);
}

Texts FailureSweep::arguments(const std::string& output, int until) const {
  Texts all = way_.arguments;
  all.insert(all.end(), {"run.output=" + output, "run.log_every=4", "checkpoint.every=4", "device.threads=1",
                         "train.epochs=0", "train.steps=" + std::to_string(until),
                         "run.watchdog_s=" + std::to_string(watchdog_s)});
  return all;
}

/// The folder of a run that is about to begin.
std::string FailureSweep::begin(Phase phase, const std::string& name) const {
  const std::string output = folder_ + "/" + name;
  fs::remove_all(output);
  if (phase == Phase::start) return output;
  const std::string made = folder_ + "/made";
  if (!fs::exists(made)) {
    const Result result = flotilla(ranks_, arguments(made, steps_before));
    if (result.exit_code != 0) throw std::runtime_error("a run that is left alone failed:\n" + result.errors);
  }
  fs::copy(made, output, fs::copy_options::recursive);
  return output;
}

std::vector<FailingCall> FailureSweep::calls(Phase phase, const std::vector<int>& ranks) const {
  const std::string output = begin(phase, "counted");
  const std::string list = folder_ + "/calls";
  fs::remove_all(list);
  fs::create_directory(list);
  const Result result = run(with_library(flotilla_command(ranks_, arguments(output, steps)), FAIL_AT_CALL,
                                         {"FLOTILLA_TEST_CALLS=" + list}));
  if (result.exit_code != 0)
    throw std::runtime_error("a run whose calls were counted failed:\n" + result.errors);
  std::vector<FailingCall> all;
  for (const int rank : ranks) {
    std::istringstream lines(read_file(list + "/rank-" + std::to_string(rank)));
    std::set<std::string> known;
    std::string line;
    while (std::getline(lines, line)) {
      FailingCall call;
      call.rank = rank;
      std::istringstream words(line);
      words >> call.word >> call.number >> call.place >> call.site >> std::ws;
      std::getline(words, call.about);
      if (known.insert(call.word + call.place).second) all.push_back(std::move(call));
    }
  }
  return all;
}

/// @returns what is wrong with the run that follows; empty: nothing
std::string FailureSweep::next_run(const std::string& output) const {
  const int reported = reported_step(output);
  const Result result = flotilla(ranks_, arguments(output, steps_of_next_run));
  if (result.exit_code != 0)
    return "the next run ended with " + std::to_string(result.exit_code) + ":\n" + result.errors;
  if (first_step(result.output) < reported)
    return "the next run began at step " + std::to_string(first_step(result.output)) + ", " +
           std::to_string(reported) + " had been reported as saved";
  return "";
}

Attempt FailureSweep::fail(Phase phase, const FailingCall& call) const {
  const std::string output = begin(phase, "run");
  const std::string fired = folder_ + "/fired";
  fs::remove(fired);
  const auto begin = std::chrono::steady_clock::now();
  Program program(with_library(flotilla_command(ranks_, arguments(output, steps)), FAIL_AT_CALL,
                               {"FLOTILLA_TEST_FAIL=" + call.plan(), "FLOTILLA_TEST_FIRED=" + fired}));
  Attempt attempt;
  if (const std::optional<Result> result = program.wait_for(patience_s)) {
    attempt.exit_code = result->exit_code;
    attempt.errors = result->errors;
  } else {
    attempt.errors = program.errors();
    for (const auto& [rank, process] : present_ranks(program.pid())) kill(process, SIGKILL);
    kill(program.pid(), SIGKILL);
    program.wait();
  }
  attempt.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  attempt.fired = fs::exists(fired);
  attempt.about = read_file(fired);
  attempt.said = line_about(call, attempt.errors);
  attempt.wrong = check_attempt(attempt, output);
  if (attempt.fired && fs::exists(output))
    if (const std::string wrong = next_run(output); !wrong.empty())
      attempt.wrong += (attempt.wrong.empty() ? "" : "; ") + wrong;
  return attempt;
}

}  // namespace flotilla::test
