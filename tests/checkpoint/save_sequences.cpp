// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/save_sequences.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/saving_pair.hpp"
#include "tests/checkpoint/watched_calls.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;
using Way = SaveEvent::Way;

constexpr std::int64_t steps_between = 20;
constexpr int exit_saved = 0;
constexpr int exit_denied = 1;
constexpr int exit_killed = 9;

/// The kind of a checkpoint's file that a path names.
std::string kind_of(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (name.starts_with("worker-")) return "worker";
  if (name.starts_with("server-")) return "server";
  return name.starts_with("step-") && name.find(".h5") != std::string::npos ? "shared" : "folder";
}

bool has_unfinished(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
  return false;
}

/// A run that saves every few steps, with what it promises.
class Run {
 public:
  explicit Run(const SaveSetting& setting) : setting_(setting) {
    start_again();
    require(save({}).empty() && secured_ == steps_between, "the first save failed");
  }

  /// What later saves can depend on, with steps relative to the current one: the files under the folder,
  /// which checkpoints are good and which the writer has verified (it remembers them), and what was promised.
  std::string state() const {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      const std::string name = fs::relative(entry.path(), folder_.path()).string();
      files.insert(name.substr(0, name.find(".tmp-") + 4));
    }
    std::string text = cat(secured_ - step_, has_lied_ ? " lied" : "");
    for (const std::string& name : files) {
      const bool has_step = name.starts_with("step-");
      const std::int64_t step = has_step ? std::stoll(name.substr(5, 8)) : step_;
      text += cat("; ", has_step ? cat(step - step_, name.substr(13)) : name);
      if (name == CheckpointFolder::file_name(step))
        text += cat(is_good(step) ? " good" : " damaged", verified_.contains(step) ? " verified" : "");
    }
    return text;
  }

  /// @returns the promise that is broken; empty: none
  std::string carry_out(const SaveEvent& event) {
    has_lied_ = has_lied_ || event.way == Way::lies;
    if (event.way == Way::set_back) {
      step_ = secured_ = oldest_good();
      start_again();
      return promises();
    }
    std::string broken = event.way == Way::kills ? save_in_child(event) : save(event);
    return broken.empty() ? promises() : broken;
  }

 private:
  void start_again() {
    has_lied_ = false;
    verified_.clear();
    pair_.reset();
    single_.reset();
    if (setting_.worker_parts)
      pair_ = std::make_unique<SavingPair>(folder_.path(), setting_.keep);
    else
      single_ = std::make_unique<CheckpointWriter>(folder_.path(), setting_.keep);
  }

  /// Lets the calls of an event fail while it lives.
  WatchedCalls& watch(std::optional<WatchedCalls>& calls, const SaveEvent& event) {
    calls.emplace(folder_.path());
    seen_ = 0;
    calls->fault = [this, event](const std::string& call, const std::string& path) {
      if (event.way == Way::nothing || call != event.call || kind_of(path) != event.file) return 0;
      if (event.way == Way::kills) {
        if (++seen_ == event.nth) ::_exit(exit_killed);
        return 0;
      }
      return event.way == Way::lies ? WatchedCalls::lies : EIO;
    };
    return *calls;
  }

  /// The next save, as Trainer::save has it. @returns what the run says of it: why it failed; empty: saved
  std::string save_next(std::int64_t step) {
    std::vector<CheckpointPart> server_parts;
    if (setting_.server_parts) {
      try {
        const CheckpointFolder folder(folder_.path());
        try {
          server_parts = save_server_parts(folder, step);
        } catch (const UserError&) {
          folder.remove_orphaned_parts(step);
          throw;
        }
      } catch (const UserError& error) {
        return error.what();
      }
    }
    if (pair_) return pair_->save(step, server_parts).error;
    Save save = save_of(sample_snapshot(step));
    save.state.server_parts = server_parts;
    single_->start(std::move(save));
    single_->finish();
    return single_->reports().at(0).error;
  }

  std::string save(const SaveEvent& event) {
    step_ += steps_between;
    const bool was_there = fs::exists(path_of(step_));
    std::string error;
    {
      std::optional<WatchedCalls> calls;
      watch(calls, event);
      error = save_next(step_);
    }
    if (error.empty()) return reported();
    if (!was_there && fs::exists(path_of(step_))) return "a checkpoint is there that was denied: " + error;
    if (event.way == Way::fails && event.call != "remove" && !has_lied_ && has_unfinished(folder_.path()))
      return "something is left of a failed save";
    return {};
  }

  std::string save_in_child(const SaveEvent& event) {
    step_ += steps_between;
    pair_.reset();
    single_.reset();  // no threads in a process that forks
    const pid_t child = ::fork();
    if (child == 0) {
      start_again();
      std::optional<WatchedCalls> calls;
      watch(calls, event);
      ::_exit(save_next(step_).empty() ? exit_saved : exit_denied);
    }
    int status = 0;
    require(::waitpid(child, &status, 0) == child && WIFEXITED(status), "the child did not end");
    start_again();
    if (WEXITSTATUS(status) == exit_saved) return reported();
    if (WEXITSTATUS(status) == exit_denied) return "a save failed without a cause";
    if (has_unfinished(folder_.path())) return "something is left of a killed run";
    step_ = newest_good();
    return {};
  }

  std::string reported() {
    secured_ = step_;
    for (const auto& [step, path] : checkpoints_in(folder_.path()))
      if (step <= step_) verified_.insert(step);
    return good(path_of(step_)) ? "" : "a checkpoint was reported that is not good";
  }

  std::string promises() {
    const std::int64_t newest = newest_good();
    if (newest < 0) return "no good checkpoint is left";
    if (newest < secured_) return cat("the newest good checkpoint is of step ", newest, ", not ", secured_);
    return {};
  }

  std::string path_of(std::int64_t step) const { return folder_.path(CheckpointFolder::file_name(step)); }
  bool good(const std::string& path) const {
    const CheckpointState state = read_checkpoint(path).state;
    for (const auto* parts : {&state.parts, &state.server_parts})
      for (const CheckpointPart& part : *parts)
        if (!part_damage(path, part).empty()) return false;
    return state.parts.size() == (setting_.worker_parts ? 2 : 0) &&
           state.server_parts.size() == (setting_.server_parts ? 2 : 0);
  }
  std::int64_t newest_good() const {
    const auto found = find_newest_good(
        folder_.path(), [](const std::string&) {}, 2);
    return found ? read_checkpoint(*found).state.step : -1;
  }
  std::int64_t oldest_good() const {
    for (const auto& [step, path] : checkpoints_in(folder_.path()))
      if (is_good(step)) return step;
    return -1;
  }
  bool is_good(std::int64_t step) const {
    try {
      return good(path_of(step));
    } catch (const UserError&) {
      return false;
    }
  }

  SaveSetting setting_;
  test::TemporaryFolder folder_;
  std::unique_ptr<SavingPair> pair_;
  std::unique_ptr<CheckpointWriter> single_;
  std::int64_t step_ = 0;
  std::int64_t secured_ = 0;         ///< The newest reported, or begun from
  bool has_lied_ = false;            ///< What a rename left under its temporary name goes at the next start
  std::set<std::int64_t> verified_;  ///< Checkpoints that existed when this writer reported a save
  std::atomic<int> seen_ = 0;
};

}  // namespace

std::string SaveEvent::text() const {
  if (way == Way::nothing) return "a good save";
  if (way == Way::set_back) return "set back";
  const char* ending = way == Way::fails ? " fails" : way == Way::lies ? " lies" : " kills";
  return cat(call, " of ", file, ending, way == Way::kills ? cat(" (", nth, ")") : "");
}

std::string text_of(std::span<const SaveEvent> events) {
  std::string text;
  for (const SaveEvent& event : events) text += (text.empty() ? "" : ", ") + event.text();
  return text;
}

std::vector<SaveEvent> all_events(const SaveSetting& setting) {
  std::vector<SaveEvent> events = {{.way = Way::nothing}, {.way = Way::set_back}};
  std::vector<std::string> files = {"shared"};
  if (setting.worker_parts) files.emplace_back("worker");
  if (setting.server_parts) files.emplace_back("server");
  for (const std::string& file : files) {
    for (const char* call : {"open", "write", "sync", "read", "rename", "remove"}) {
      events.push_back({.way = Way::fails, .call = call, .file = file});
      events.push_back({.way = Way::kills, .call = call, .file = file});
      const std::string_view often = "write read";  // of the one shared file as well
      if (file != "shared" || often.find(call) != std::string_view::npos)
        events.push_back({.way = Way::kills, .call = call, .file = file, .nth = 2});
    }
    for (const char* call : {"write", "rename", "remove"})
      events.push_back({.way = Way::lies, .call = call, .file = file});
  }
  events.push_back({.way = Way::fails, .call = "sync", .file = "folder"});
  for (const int nth : {1, 2})
    events.push_back({.way = Way::kills, .call = "sync", .file = "folder", .nth = nth});
  return events;
}

namespace {

/// The first promise that is broken, with the event; if none is, `state` gets the final state.
std::string carry_out(const SaveSetting& setting, std::span<const SaveEvent> events, std::string* state) {
  Run run(setting);
  for (std::size_t i = 0; i < events.size(); ++i)
    if (const std::string broken = run.carry_out(events[i]); !broken.empty())
      return cat(broken, " after event ", i + 1, " of: ", text_of(events));
  if (state != nullptr) *state = run.state();
  return {};
}

}  // namespace

std::string broken_promise(const SaveSetting& setting, std::span<const SaveEvent> events) {
  return carry_out(setting, events, nullptr);
}

Exploration explore(const SaveSetting& setting, std::size_t length) {
  Exploration result;
  const std::vector<SaveEvent> events = all_events(setting);
  std::set<std::string> seen;
  std::vector<std::vector<SaveEvent>> leading = {{}};  // one sequence to each state that is new
  while (!leading.empty() && result.length < length) {
    ++result.length;
    std::vector<std::vector<SaveEvent>> next;
    for (std::vector<SaveEvent>& sequence : leading) {
      for (const SaveEvent& event : events) {
        sequence.push_back(event);
        std::string state;
        ++result.tried;
        if (std::string broken = carry_out(setting, sequence, &state); !broken.empty())
          result.broken.push_back(std::move(broken));
        else if (seen.insert(state).second)
          next.push_back(sequence);
        sequence.pop_back();
      }
    }
    leading = std::move(next);
  }
  result.states = seen.size();
  result.all = leading.empty();
  return result;
}

std::vector<SaveEvent> random_sequence(std::span<const SaveEvent> events, std::size_t length,
                                       std::mt19937& random) {
  std::vector<SaveEvent> sequence;
  for (std::size_t i = 0; i < length; ++i) sequence.push_back(events[random() % events.size()]);
  return sequence;
}

}  // namespace flotilla
