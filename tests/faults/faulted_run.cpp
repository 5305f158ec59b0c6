// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/faulted_run.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "tests/faults/private_mounts.hpp"
#include "tests/faults/small_run.hpp"

namespace flotilla::test {

namespace fs = std::filesystem;

namespace {

constexpr double patience_s = 60.0;  ///< After this time a run counts as hung

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// Is a file below `folder` being written?
bool has_temporary_file(const std::string& folder) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error))
    if (contains(entry->path().filename().string(), ".tmp-")) return true;
  return false;
}

/// The first line that tells why a run ends.
std::string reason_in(const std::string& errors) {
  std::istringstream text(errors);
  std::string line;
  while (std::getline(text, line))
    if (line.starts_with("flotilla: ") && !line.starts_with("flotilla: warning")) return line;
  return "";
}

/// `text` without the lines that name `file`.
std::string without(const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  std::string left;
  for (std::string line; std::getline(lines, line);)
    if (!contains(line, file)) left += line + '\n';
  return left;
}

std::string fill_of(const std::string& disk) {
  return disk + "/fill";
}

}  // namespace

nlohmann::json Outcome::json(const SoakCase& one) const {
  return {{"seed", one.seed},  {"way", one.way.name},  {"ranks", one.ranks},    {"hosts", one.hosts},
          {"save", one.save},  {"kind", fault.kind()}, {"fault", fault.text()}, {"happened", happened},
          {"exit", exit_code}, {"gone_s", gone_s},     {"reported", reported},  {"resumed", resumed},
          {"said", said},      {"damaged", damaged},   {"bits", bits},          {"wrong", wrong}};
}

FaultedRun::FaultedRun(const SoakCase& one, SoakPlace place, const References& references)
    : case_(one), place_(std::move(place)), references_(references), random_(one.seed) {}

void FaultedRun::note_wrong(const std::string& what) {
  if (!what.empty()) outcomes_.back().wrong.push_back(what);
}

const std::vector<Outcome>& FaultedRun::execute() {
  if (case_.resumes) {
    fs::copy(references_.beginning(case_, place_), place_.output, fs::copy_options::recursive);
    at_least_ = 40;
  }
  for (const Fault& fault : case_.faults) {
    run_with(fault);
    if (case_.damages_newest && outcomes_.size() == 1) damage_newest();
  }
  finish();
  return outcomes_;
}

/// @returns whether it has come.
bool FaultedRun::wait_for(const Program& program, Moment moment) const {
  const auto says = [&](const char* words) { return contains(program.output(), words); };
  const auto comes = [&](const auto& holds) {
    bool come = false;
    wait_until([&] { return (come = holds()) || !runs(program.pid()); }, patience_s);
    return come;
  };
  const std::string staged = place_.fired + "-staged";
  switch (moment) {
    case Moment::at_start: return true;
    case Moment::in_staging: return comes([&] { return fs::exists(staged) && !fs::is_empty(staged); });
    case Moment::in_training: return comes([&] { return says("\nepoch "); });
    case Moment::in_validation:
      return comes([&] { return contains(read_file(place_.output + "/metrics.jsonl"), "\"validation\""); });
    case Moment::in_saving:
      return wait_for(program, Moment::in_training) &&
             comes([&] { return has_temporary_file(place_.output + "/checkpoints"); });
    case Moment::at_the_end: return comes([&] { return says(" after step "); });
  }
  return false;
}

/// The rank's process, waited for; the launcher where the run has ended before.
pid_t FaultedRun::process_of(int rank, const Program& program, std::map<int, pid_t>& ranks) const {
  wait_until(
      [&] {
        if (!ranks.contains(rank)) ranks = present_ranks(program.pid());
        return ranks.contains(rank) || !runs(program.pid());
      },
      patience_s);
  return ranks.contains(rank) ? ranks.at(rank) : program.pid();
}

void FaultedRun::inject_second(Program& program, const Fault& fault, std::map<int, pid_t>& ranks) {
  if (fault.also == Harm::ask_to_stop)
    kill(program.pid(), SIGUSR1);
  else
    kill(process_of(fault.other_rank, program, ranks), fault.also == Harm::stop_rank ? SIGSTOP : SIGKILL);
}

/// `ranks`: those of the run, of which the fault's may not be there yet.
void FaultedRun::inject(Program& program, const Fault& fault, std::map<int, pid_t>& ranks) {
  const pid_t rank = process_of(fault.rank, program, ranks);
  if (fault.also && fault.also != Harm::ask_to_stop) process_of(fault.other_rank, program, ranks);
  switch (fault.harm) {
    case Harm::kill_rank: kill(rank, SIGKILL); break;
    case Harm::kill_launcher: kill(program.pid(), SIGKILL); break;
    case Harm::end_launcher: kill(program.pid(), SIGTERM); break;
    case Harm::stop_rank: kill(rank, SIGSTOP); break;
    case Harm::pause_rank:
      kill(rank, SIGSTOP);
      sleep(1.0);
      kill(rank, SIGCONT);
      sleep(0.2);
      kill(program.pid(), SIGUSR1);
      break;
    case Harm::turn_clock: sleep(0.5); [[fallthrough]];
    case Harm::ask_to_stop:
      // The launcher forwards no signal before its ranks exist.
      for (int i = 0; i < case_.ranks; ++i) process_of(i, program, ranks);
      kill(program.pid(), SIGUSR1);
      break;
    case Harm::end_ranks:
      for (int i = 0; i < case_.ranks; ++i) process_of(i, program, ranks);
      for (const auto& [number, process] : ranks) kill(process, SIGTERM);
      break;
    case Harm::die_at_call: wait_until([&] { return !runs(rank); }, patience_s / 4); break;
    case Harm::fill_disk:
    case Harm::keep_disk_full:
      fill_disk(fill_of(place_.disk));
      if (fault.also) break;
      if (!wait_until([&] { return contains(program.errors(), "was not saved"); }, patience_s))
        note_wrong("nothing was said of the full disk");
      if (fault.harm == Harm::fill_disk) fs::remove(fill_of(place_.disk));
      kill(program.pid(), SIGUSR1);
      break;
    case Harm::fill_shared_memory:
    case Harm::fail_call: break;
  }
  if (fault.also) inject_second(program, fault, ranks);
}

void FaultedRun::run_with(const Fault& fault) {
  outcomes_.push_back({.fault = fault});
  fs::remove(place_.fired);
  Texts more;
  const bool whole_run = fault.harm == Harm::fail_call || fault.harm == Harm::fill_shared_memory;
  if (whole_run || fault.moment == Moment::at_the_end)
    more.push_back("train.steps=" + std::to_string(comparable_step(std::max(at_least_, in_memory_) + 60)));
  if (fault.harm == Harm::fill_shared_memory)
    fill_disk(fill_of(shared_memories()[static_cast<std::size_t>(fault.host)]));
  Program program(soak_command(case_, place_, place_.output, more, &fault));
  double begin_s = now_s();
  std::map<int, pid_t> ranks;
  if (!wait_for(program, fault.moment))
    note_wrong("the moment did not come:\n" + program.output() + program.errors());
  if (fault.moment != Moment::at_start) ranks = present_ranks(program.pid());
  sleep(fault.delay_s);
  if (!whole_run) {
    inject(program, fault, ranks);
    begin_s = now_s();
  }
  wait_until_gone(program, std::move(ranks), begin_s, outcomes_.back());
  if (!place_.disk.empty()) fs::remove(fill_of(place_.disk));
}

void FaultedRun::wait_until_gone(Program& program, std::map<int, pid_t> ranks, double begin_s,
                                 Outcome& outcome) {
  const Harm harm = outcome.fault.harm;
  const bool died = harm != Harm::die_at_call || ranks.empty() || !runs(ranks.at(outcome.fault.rank));
  if (!died) kill(program.pid(), SIGUSR1);  // that call did not come: the run may end in order
  const pid_t launcher = program.pid();
  std::optional<Result> result;
  const auto gone = [&] {
    if (!result) {
      for (const auto& [rank, process] : present_ranks(launcher)) ranks[rank] = process;
      result = program.wait_for(0.02);
    }
    return result && std::ranges::none_of(ranks, [](const auto& rank) { return runs(rank.second); });
  };
  if (!wait_until(gone, patience_s)) {
    note_wrong("it still ran after " + std::to_string(patience_s) + " s:\n" + program.errors());
    for (const auto& [rank, process] : ranks) kill(process, SIGKILL);
    if (!result) kill(launcher, SIGKILL);
    if (!result) result = program.wait();
  }
  outcome.gone_s = now_s() - begin_s;
  outcome.exit_code = result->exit_code;
  outcome.said = reason_in(result->errors);
  outcome.happened = harm == Harm::fail_call ? fs::exists(place_.fired) : died;
  // Another all-reduce than the one that was left alone has: more than two ranks may add in another order.
  if (case_.ranks > 2 && contains(result->errors, "\"auto\" does without")) case_.way.exact = false;
  check_end_of(outcome, *result);
  note_resumption(*result);
  examine(outcome);
  look_for_files(outcome);
  in_memory_ = case_.way.parts && case_.hosts > 1 ? -1 : step_in_memory();
}

void FaultedRun::check_end_of(Outcome& outcome, const Result& result) const {
  Result seen = result;
  // The run is right to pass over what the previous fault has damaged.
  if (!newest_damaged_.empty())
    seen.errors = without(result.errors, fs::path(newest_damaged_).filename().string());
  const std::string wrong =
      check_end(outcome.fault, outcome.happened, seen, outcome.gone_s, case_.watchdog_s());
  if (!wrong.empty()) outcome.wrong.push_back(wrong + ":\n" + result.errors);
  if (outcome.fault.harm == Harm::fail_call) outcome.said += "  [" + read_file(place_.fired) + "]";
}

/// Records where the run resumed after the earlier faults, from what it says.
void FaultedRun::note_resumption(const Result& result) {
  const std::int64_t step = first_step(result.output);
  if (step < 0) {
    // It did not get that far; but a run that refuses to resume is lost, unless this fault makes it refuse.
    const Harm harm = outcomes_.back().fault.harm;
    const bool may_refuse =
        outcomes_.back().resumed < 0 && (harm == Harm::fail_call || harm == Harm::fill_shared_memory);
    if ((result.exit_code == 2 || result.exit_code == 4) && !may_refuse)
      note_wrong("it did not go on:\n" + result.errors);
    return;
  }
  for (Outcome& outcome : outcomes_)
    if (outcome.resumed < 0 && &outcome != &outcomes_.back()) outcome.resumed = step;
  if (step < at_least_)
    note_wrong("it went on from step " + std::to_string(step) + ", " + std::to_string(at_least_) +
               " had been reported as saved");
  if (step < in_memory_)
    note_wrong("it went on from step " + std::to_string(step) + ", " + std::to_string(in_memory_) +
               " was in the memory of a host");
  if (!newest_damaged_.empty() && step != in_memory_ &&
      !contains(result.errors, fs::path(newest_damaged_).filename().string()))
    note_wrong(newest_damaged_ + " was passed over without a word:\n" + result.errors);
  if (!newest_damaged_.empty() && step != at_least_ && step != in_memory_)
    note_wrong("it went on from step " + std::to_string(step) + " instead of " + std::to_string(at_least_));
  newest_damaged_.clear();
}

/// Runs on to a step at which the undisturbed run has a checkpoint.
void FaultedRun::finish() {
  // A checkpoint may be there that was not reported any more.
  const auto files = checkpoints();
  const std::int64_t newest = files.empty() ? 0 : files.rbegin()->first;
  const std::int64_t end = comparable_step(std::max({at_least_, newest, in_memory_}) + 20);
  outcomes_.push_back({});
  const Result result =
      run(soak_command(case_, place_, place_.output, {"train.steps=" + std::to_string(end)}, nullptr));
  note_resumption(result);
  const std::vector<std::string> wrong = outcomes_.back().wrong;
  outcomes_.pop_back();
  Outcome& last = outcomes_.back();
  last.wrong.insert(last.wrong.end(), wrong.begin(), wrong.end());
  if (last.resumed < 0) note_wrong("nothing went on after it");
  if (result.exit_code != 0) return note_wrong("it did not end well:\n" + result.errors);
  last.bits = "not promised";
  if (!case_.way.exact) return;
  const bool equal = checksum_of_model(place_.output) == references_.model(case_, place_, end);
  last.bits = equal ? "equal" : "unequal";
  if (!equal)
    note_wrong(std::string("the model is not that of a run that was left alone") +
               (references_.repeats(case_, place_, end) ? "" : "; nor do two of these agree"));
}

}  // namespace flotilla::test
