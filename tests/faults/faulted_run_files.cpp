// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/faults/faulted_run.hpp"

#include "src/checkpoint/resident_folder.hpp"

// What runs leave in their folders, in shared memory and among temporary files.

namespace flotilla::test {

namespace fs = std::filesystem;

namespace {

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

}  // namespace

std::string damage(const std::string& file, bool may_remove, std::mt19937_64& random) {
  std::string bytes = read_file(file);
  const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
  switch (random() % (may_remove ? 4 : 3)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
      write_file(file, bytes);
      return "byte " + std::to_string(at) + " flipped";
    case 1: fs::resize_file(file, at); return "cut off at " + std::to_string(at);
    case 2: fs::resize_file(file, 0); return "emptied";
    default: fs::remove(file); return "removed";
  }
}

bool FaultedRun::is_good(const std::string& checkpoint) const {
  std::string damage;
  const auto found = find_newest_good(
      place_.output, [&](const std::string& text) { damage += text; }, case_.ranks - case_.way.servers);
  return !contains(damage, fs::path(checkpoint).filename().string()) &&
         run({FLOTILLA_EXECUTABLE, "inspect", checkpoint}).exit_code == 0;
}

std::map<std::int64_t, std::string> FaultedRun::checkpoints() const {
  std::map<std::int64_t, std::string> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(place_.output + "/checkpoints", error))
    if (entry.path().filename().string().starts_with("step-") && entry.path().extension() == ".h5")
      files[step_of(entry.path().string())] = entry.path().string();
  return files;
}

/// The files of the run that is gone.
void FaultedRun::examine(Outcome& outcome) {
  const auto files = checkpoints();
  for (const auto& [step, file] : files) {
    const bool good = is_good(file);
    if (good) damaged_.erase(file);
    if (!good && !damaged_.contains(file)) outcome.wrong.push_back(file + " is damaged");
  }
  for (const nlohmann::json& saved : lines_about(place_.output, "checkpoint")) {
    // If a run was copied, its lines name the folder that it was copied from.
    const fs::path name = fs::path(saved.at("path").get<std::string>()).filename();
    if (!damaged_.contains(place_.output + "/checkpoints/" + name.string()))
      at_least_ = std::max(at_least_, step_of(name.string()));
  }
  // A run has passed it over and saved newer ones since, but what it said is lost with its mpirun.
  if (!newest_damaged_.empty() && at_least_ > step_of(newest_damaged_)) newest_damaged_.clear();
  if (outcome.exit_code == 75 || outcome.exit_code == 0) {
    const auto ends = lines_about(place_.output, "end");
    if (!ends.empty() && (outcome.fault.moment != Moment::at_start || outcome.fault.harm == Harm::fail_call))
      at_least_ = std::max(at_least_, ends.back().at("step").get<std::int64_t>());
  }
  if (at_least_ > 0 && !files.contains(at_least_) && (files.empty() || files.rbegin()->first < at_least_))
    outcome.wrong.push_back("the checkpoint of step " + std::to_string(at_least_) + " is lost");
  std::int64_t before = 0;
  for (const nlohmann::json& step : lines_about(place_.output, "step")) {
    const auto number = step.at("step").get<std::int64_t>();
    if (number <= before)
      outcome.wrong.push_back("metrics.jsonl tells of step " + std::to_string(number) + " twice");
    before = number;
  }
  outcome.reported = at_least_;
}

std::vector<std::string> FaultedRun::shared_memories() const {
  if (place_.hosts == nullptr) return {"/dev/shm"};
  std::vector<std::string> all;
  for (int host = 0; host < place_.hosts->count(); ++host) all.push_back(place_.hosts->shared_memory(host));
  return all;
}

/// Nothing of the run may stay in shared memory or among temporary files. Open MPI's own folder, which
/// it leaves now and then where a process was killed, is not ours, nor are its segments where its launcher
/// was killed. What cannot be removed, because that call failed, must stay; so may the empty file of a rank
/// that died before all had opened it to share memory.
void FaultedRun::look_for_files(Outcome& outcome) const {
  std::vector<std::string> folders = shared_memories();
  folders.push_back(place_.temporary);
  const bool cannot_remove = outcome.fault.harm == Harm::fail_call && outcome.fault.call.word == "remove";
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      const bool launcher_died = outcome.fault.harm == Harm::kill_launcher || outcome.exit_code == 128 + 10;
      const bool of_launcher =
          name.starts_with("ompi.") || (launcher_died && name.starts_with("vader_segment."));
      const bool empty = name.starts_with("flotilla-") && entry.is_regular_file() && entry.file_size() == 0;
      if (is_kept_state(entry)) continue;
      if (!of_launcher && !cannot_remove && !empty && name != "fill")
        outcome.wrong.push_back("left: " + entry.path().string());
      std::error_code ignored;
      fs::remove_all(entry.path(), ignored);
    }
  }
}

/// Whether it is the state in memory of this run, which has not ended.
bool FaultedRun::is_kept_state(const fs::directory_entry& entry) const {
  const auto record = ResidentRecord::read(place_.output);
  return record && entry.is_directory() &&
         entry.path().filename() == fs::path(ResidentFolder(record->id).path()).filename();
}

/// The newest step that hosts keep in memory, all parts included where workers differ; -1: none.
std::int64_t FaultedRun::step_in_memory() const {
  const auto record = ResidentRecord::read(place_.output);
  std::int64_t newest = -1;
  if (!record) return newest;
  const std::string name = fs::path(ResidentFolder(record->id).path()).filename().string();
  for (const std::string& memory : shared_memories()) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(fs::path(memory) / name, none))
      if (entry.path().extension() == ".h5" && is_good(entry.path().string()))
        newest = std::max(newest, step_of(entry.path().string()));
  }
  const auto files = checkpoints();
  if (record->follows >= 0 && !files.contains(record->follows)) return -1;
  return files.empty() || files.rbegin()->first < newest ? newest : -1;
}

void FaultedRun::damage_newest() {
  auto files = checkpoints();
  std::erase_if(files, [&](const auto& file) { return damaged_.contains(file.second); });
  if (files.size() < 2 || outcomes_.empty()) return;
  const std::string newest = files.rbegin()->second;
  std::string victim = newest;
  std::vector<std::string> parts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(newest).replace_extension(".parts"), error))
    parts.push_back(entry.path().string());
  if (!parts.empty() && random_() % 2 == 0) victim = parts[random_() % parts.size()];
  outcomes_.back().damaged =
      fs::path(victim).filename().string() + ' ' + damage(victim, victim != newest, random_);
  if (is_good(newest)) note_wrong(newest + " is taken for good: " + outcomes_.back().damaged);
  damaged_.insert(newest);
  files.erase(std::prev(files.end()));
  at_least_ = files.rbegin()->first;
  newest_damaged_ = newest;
}

}  // namespace flotilla::test
