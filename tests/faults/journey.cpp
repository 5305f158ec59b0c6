// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/journey.hpp"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "src/checkpoint/checkpoint.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/faults/private_mounts.hpp"
#include "tests/faults/small_run.hpp"

namespace flotilla::test {

namespace fs = std::filesystem;

namespace {

constexpr double watchdog_s = 4.0;
constexpr double bound_s = watchdog_s + 5.0;
constexpr double patience_s = 60.0;  ///< Then a run is taken for one that never ends

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
    if (entry->path().filename().string().find(".tmp-") != std::string::npos) return true;
  return false;
}

/// 400 of "…/step-00000400.h5".
std::int64_t step_of(const std::string& checkpoint) {
  return std::stoll(fs::path(checkpoint).stem().string().substr(std::string("step-").size()));
}

/// The lines of metrics.jsonl about an event; broken lines, which a full disk may leave, are left out.
std::vector<nlohmann::json> lines_about(const std::string& output, const std::string& event) {
  std::istringstream text(read_file(output + "/metrics.jsonl"));
  std::vector<nlohmann::json> found;
  std::string line;
  while (std::getline(text, line)) {
    nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.at("event") == event) found.push_back(std::move(json));
  }
  return found;
}

/// The first line that tells why a run ends.
std::string verdict_in(const std::string& errors) {
  std::istringstream text(errors);
  std::string line;
  while (std::getline(text, line))
    if (line.starts_with("flotilla: ") && !line.starts_with("flotilla: warning")) return line;
  return "";
}

bool ends_in_order(Harm harm) {
  return harm == Harm::pause_rank || harm == Harm::ask_to_stop || harm == Harm::fill_disk;
}

std::string fill_of(const std::string& disk) {
  return disk + "/fill";
}

}  // namespace

std::string Fault::text() const {
  std::ostringstream text;
  text << text_of(harm);
  if (harm == Harm::kill_rank || harm == Harm::stop_rank || harm == Harm::pause_rank) text << ' ' << rank;
  if (harm == Harm::kill_two) text << ' ' << rank << ' ' << other_rank;
  if (harm == Harm::die_at_call) return text.str() + ' ' + call;
  switch (moment) {
    case Moment::at_start: text << ", start"; break;
    case Moment::in_training: text << ", training"; break;
    case Moment::in_saving: text << ", saving"; break;
    case Moment::at_the_end: text << ", end"; break;
  }
  text.precision(3);
  text << " + " << std::fixed << delay_s << " s";
  return text.str();
}

std::string damage(const std::string& file, std::mt19937_64& random) {
  std::string bytes = read_file(file);
  const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
  switch (random() % 3) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
      write_file(file, bytes);
      return "byte " + std::to_string(at) + " flipped";
    case 1: fs::resize_file(file, at); return "cut off at " + std::to_string(at);
    default: fs::resize_file(file, 0); return "emptied";
  }
}

Journey::Journey(const Way& way, int ranks, Place place, std::uint64_t seed)
    : way_(way), ranks_(ranks), place_(std::move(place)), random_(seed) {}

Texts Journey::command(const Texts& more, const std::string& call) const {
  Texts arguments = way_.arguments;
  arguments.insert(arguments.end(), {"run.output=" + place_.output, "run.log_every=20", "checkpoint.every=20",
                                     "device.threads=1", "train.epochs=100000", "run.watchdog_s=4"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  Texts words = flotilla_command(ranks_, arguments);
  if (!call.empty())
    words.insert(words.begin() + 1,
                 {"-x", "LD_PRELOAD=" DIE_AT_CALL, "-x", "ASAN_OPTIONS=verify_asan_link_order=0"});
  words.insert(words.begin(), {"env", "TMPDIR=" + place_.temporary, "FLOTILLA_TEST_DIE_AT=" + call});
  return words;
}

void Journey::complain(const std::string& what) {
  (outcomes_.empty() ? wrong_ : outcomes_.back().wrong).push_back(what);
}

/// @returns whether it has come.
bool Journey::wait_for(const Program& program, Moment moment) const {
  const auto says = [&](const char* words) { return program.output().find(words) != std::string::npos; };
  switch (moment) {
    case Moment::at_start: return true;
    case Moment::in_training: return wait_until([&] { return says("[Epoch"); }, patience_s);
    case Moment::in_saving:
      return wait_for(program, Moment::in_training) &&
             wait_until([&] { return has_temporary_file(place_.output + "/checkpoints"); }, patience_s);
    case Moment::at_the_end: return wait_until([&] { return says(" after step "); }, patience_s);
  }
  return false;
}

/// `ranks`: those of the run, of which the fault's may not be there yet.
void Journey::strike(Program& program, const Fault& fault, std::map<int, pid_t>& ranks) {
  const auto rank = [&](int number) {
    wait_until(
        [&] {
          if (!ranks.contains(number)) ranks = present_ranks(program.pid());
          return ranks.contains(number) || !runs(program.pid());
        },
        patience_s);
    return ranks.contains(number) ? ranks.at(number) : program.pid();
  };
  switch (fault.harm) {
    case Harm::kill_rank: kill(rank(fault.rank), SIGKILL); break;
    case Harm::kill_two: {
      const pid_t first = rank(fault.rank);
      kill(rank(fault.other_rank), SIGKILL);
      kill(first, SIGKILL);
      break;
    }
    case Harm::kill_launcher: kill(program.pid(), SIGKILL); break;
    case Harm::end_launcher: kill(program.pid(), SIGTERM); break;
    case Harm::stop_rank: kill(rank(fault.rank), SIGSTOP); break;
    case Harm::pause_rank:
      kill(rank(fault.rank), SIGSTOP);
      sleep(1.0);
      kill(rank(fault.rank), SIGCONT);
      sleep(0.2);
      kill(program.pid(), SIGUSR1);
      break;
    case Harm::ask_to_stop: kill(program.pid(), SIGUSR1); break;
    case Harm::die_at_call: {
      const pid_t victim = rank(fault.rank);
      wait_until([&] { return !runs(victim); }, patience_s / 2);
      break;
    }
    case Harm::fill_disk:
    case Harm::keep_disk_full:
      fill_disk(fill_of(place_.disk));
      if (!wait_until([&] { return program.errors().find("was not saved") != std::string::npos; },
                      patience_s))
        complain("nothing was said of the full disk");
      if (fault.harm == Harm::fill_disk) fs::remove(fill_of(place_.disk));
      kill(program.pid(), SIGUSR1);
      break;
  }
}

void Journey::suffer(const Fault& fault) {
  Texts more;
  if (fault.moment == Moment::at_the_end) more.push_back("train.steps=" + std::to_string(at_least_ + 50));
  outcomes_.push_back({.fault = fault});
  Program program(command(more, fault.call));
  std::map<int, pid_t> ranks;
  if (!wait_for(program, fault.moment))
    complain("the moment did not come:\n" + program.output() + program.errors());
  if (fault.moment != Moment::at_start) ranks = present_ranks(program.pid());
  sleep(fault.delay_s);
  strike(program, fault, ranks);
  wait_until_gone(program, std::move(ranks), now_s(), outcomes_.back());
  if (!place_.disk.empty()) fs::remove(fill_of(place_.disk));
}

void Journey::wait_until_gone(Program& program, std::map<int, pid_t> ranks, double begin_s,
                              Outcome& outcome) {
  const Harm harm = outcome.fault.harm;
  const bool fired = harm != Harm::die_at_call || ranks.empty() || !runs(ranks.at(outcome.fault.rank));
  if (!fired) kill(program.pid(), SIGUSR1);  // that call did not come: the run may end in order
  const pid_t launcher = program.pid();
  std::optional<Result> result;
  const auto gone = [&] {
    if (!result) {
      if (!ranks.empty() || runs(launcher))
        for (const auto& [rank, process] : present_ranks(launcher)) ranks[rank] = process;
      result = program.wait_for(0.002);
    }
    if (!result) return false;
    for (const auto& [rank, process] : ranks)
      if (runs(process)) return false;
    return true;
  };
  if (!wait_until(gone, patience_s)) {
    complain("it still ran after " + std::to_string(patience_s) + " s:\n" + program.errors());
    for (const auto& [rank, process] : ranks) kill(process, SIGKILL);
    if (!result) kill(launcher, SIGKILL);
    if (!result) result = program.wait();
  }
  const double gone_s = now_s() - begin_s;
  note_resumption(*result);
  outcome.gone_s = gone_s;
  outcome.exit_code = result->exit_code;
  outcome.said = verdict_in(result->errors);
  outcome.happened = fired;
  const bool in_order = ends_in_order(harm) || !fired;
  const bool may_be_done = outcome.fault.moment == Moment::at_the_end;
  const bool may_start = outcome.fault.moment == Moment::at_start;
  if (in_order && outcome.exit_code != 75 && !may_start && !may_be_done)
    complain("expected exit code 75:\n" + result->errors);
  if (harm == Harm::stop_rank && outcome.exit_code != 3 && !may_be_done)
    complain("expected exit code 3:\n" + result->errors);
  // Who dies says nothing; only a hang or a full disk is the program's own verdict.
  if (!in_order && harm != Harm::stop_rank && harm != Harm::keep_disk_full &&
      (outcome.exit_code == 3 || outcome.exit_code == 4))
    complain("an error of its own:\n" + result->errors);
  if (harm == Harm::keep_disk_full && outcome.exit_code != 2)
    complain("expected exit code 2:\n" + result->errors);
  if (!in_order && harm != Harm::keep_disk_full && outcome.exit_code == 0 && !may_be_done)
    complain("exit code 0 after a fault");
  if (!in_order && outcome.gone_s > bound_s) complain("gone later than watchdog_s + 5 s");
  if (result->errors.find("flotilla: rank") == std::string::npos && harm == Harm::stop_rank && !may_be_done)
    complain("no rank said what hangs:\n" + result->errors);
  examine(outcome);
  look_for_files(outcome);
}

/// Of the faults before, from what the run after them says.
void Journey::note_resumption(const Result& result) {
  const std::size_t line = result.output.find("resumed      from ");
  std::int64_t step = -1;
  if (line != std::string::npos) {
    const std::size_t at = result.output.find(", step ", line);
    step = std::stoll(result.output.substr(at + std::string(", step ").size()));
  } else if (result.output.find("starting at step 0 of") != std::string::npos) {
    step = 0;
  } else {
    // It did not come so far; but a run that refuses to go on is a run that is lost.
    if (result.exit_code == 2 || result.exit_code == 4) complain("it did not go on:\n" + result.errors);
    return;
  }
  for (Outcome& outcome : outcomes_)
    if (outcome.resumed < 0 && outcome.gone_s >= 0) outcome.resumed = step;
  if (step < at_least_)
    complain("it went on from step " + std::to_string(step) + ", " + std::to_string(at_least_) +
             " had been reported as saved");
  if (!spoilt_file_.empty() &&
      result.errors.find(fs::path(spoilt_file_).filename().string()) == std::string::npos)
    complain(spoilt_file_ + " was passed over without a word:\n" + result.errors);
  if (!spoilt_file_.empty() && step != at_least_)
    complain("it went on from step " + std::to_string(step) + " instead of " + std::to_string(at_least_));
  spoilt_file_.clear();
}

bool Journey::is_good(const std::string& checkpoint) const {
  std::string damage;
  const auto found = find_newest_good(
      place_.output, [&](const std::string& text) { damage += text; }, ranks_ - way_.servers);
  return damage.find(fs::path(checkpoint).filename().string()) == std::string::npos &&
         run({FLOTILLA_EXECUTABLE, "inspect", checkpoint}).exit_code == 0;
}

std::map<std::int64_t, std::string> Journey::checkpoints() const {
  std::map<std::int64_t, std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(place_.output + "/checkpoints", error))
    if (entry.path().extension() == ".h5") files[step_of(entry.path().string())] = entry.path().string();
  return files;
}

/// The files of the run that is gone.
void Journey::examine(Outcome& outcome) {
  const auto files = checkpoints();
  for (const auto& [step, file] : files) {
    const bool good = is_good(file);
    if (good) spoilt_.erase(file);
    if (!good && !spoilt_.contains(file)) outcome.wrong.push_back(file + " is damaged");
  }
  for (const nlohmann::json& saved : lines_about(place_.output, "checkpoint")) {
    const auto path = saved.at("path").get<std::string>();
    if (!spoilt_.contains(path)) at_least_ = std::max(at_least_, step_of(path));
  }
  if (outcome.exit_code == 75 || outcome.exit_code == 0) {
    const auto ends = lines_about(place_.output, "end");
    if (!ends.empty() && outcome.fault.moment != Moment::at_start)
      at_least_ = std::max(at_least_, ends.back().at("step").get<std::int64_t>());
  }
  if (at_least_ > 0 && !files.contains(at_least_) && (files.empty() || files.rbegin()->first < at_least_))
    outcome.wrong.push_back("the checkpoint of step " + std::to_string(at_least_) + " is lost");
  outcome.reported = at_least_;
}

/// Nothing of the run may stay in shared memory or among temporary files. What Open MPI leaves there when its
/// launcher itself was killed is not ours.
void Journey::look_for_files(Outcome& outcome) const {
  for (const std::string& folder : {std::string("/dev/shm"), place_.temporary}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      const bool of_launcher = outcome.fault.harm == Harm::kill_launcher &&
                               (name.starts_with("vader_segment.") || name.starts_with("ompi."));
      if (!of_launcher) outcome.wrong.push_back("left: " + entry.path().string());
      std::error_code ignored;
      fs::remove_all(entry.path(), ignored);
    }
  }
}

void Journey::spoil_newest() {
  auto files = checkpoints();
  std::erase_if(files, [&](const auto& file) { return spoilt_.contains(file.second); });
  if (files.size() < 2 || outcomes_.empty()) return;
  const std::string newest = files.rbegin()->second;
  std::string victim = newest;
  std::vector<std::string> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(newest).replace_extension(".parts"), error))
    parts.push_back(entry.path().string());
  if (!parts.empty() && random_() % 2 == 0) victim = parts[random_() % parts.size()];
  outcomes_.back().spoilt = fs::path(victim).filename().string() + ' ' + damage(victim, random_);
  if (is_good(newest)) complain(newest + " is taken for good: " + outcomes_.back().spoilt);
  spoilt_.insert(newest);
  files.erase(std::prev(files.end()));
  at_least_ = files.rbegin()->first;
  spoilt_file_ = newest;
}

void Journey::finish(const std::string& reference_folder) {
  // A checkpoint may be there that was not reported any more.
  const auto files = checkpoints();
  const std::int64_t newest = files.empty() ? 0 : files.rbegin()->first;
  const Texts steps = {"train.steps=" + std::to_string(std::max(at_least_, newest) + 40)};
  Texts words = command(steps, "");
  const Result result = run(words);
  note_resumption(result);
  for (Outcome& outcome : outcomes_)
    if (outcome.resumed < 0) outcome.wrong.push_back("nothing went on after it");
  if (result.exit_code != 0) return complain("it did not end well:\n" + result.errors);
  std::int64_t before = 0;
  for (const nlohmann::json& step : lines_about(place_.output, "step")) {
    const auto number = step.at("step").get<std::int64_t>();
    if (number <= before) complain("metrics.jsonl tells of step " + std::to_string(number) + " twice");
    before = number;
  }
  if (!way_.exact) return;
  const auto undisturbed = [&](const std::string& folder) {
    for (std::string& word : words)
      if (word.starts_with("run.output=")) word = "run.output=" + folder;
    if (run(words).exit_code != 0) complain("a run that was left alone failed");
    return final_model(folder).values;
  };
  const auto model = final_model(place_.output).values;
  const auto reference = undisturbed(reference_folder);
  if (model == reference) return;
  const auto again = undisturbed(reference_folder + "-2");
  complain(std::string("the model is not that of a run that was left alone") +
           (again == reference ? "" : "; nor do two of these agree"));
}

}  // namespace flotilla::test
