// SPDX-License-Identifier: Apache-2.0
#include "src/train/saves.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

namespace {

constexpr double look_at_disk_s = 0.1;

/// What a state in memory takes before one was written: headers and groups of a small file, then memory's
/// speed.
double expected_resident_s(std::int64_t bytes) {
  return 0.003 + static_cast<double>(bytes) / 1e9;
}

}  // namespace

Saves::Saves(RunParts& run, Reporter& reporter, const Writers& writers, std::string last_good)
    : run_(run), reporter_(reporter), resident_(writers.resident), last_good_(std::move(last_good)) {
  // Makes the copies' memory now: fresh pages would stall the first save for longer than its copy.
  const auto source = [&] {
    return std::make_shared<StateSource>(*run.model.network, run.sync.strategy->live());
  };
  const bool root = run.machine.workers.is_root();
  if (writers.shared != nullptr)
    targets_.push_back(
        {writers.shared, Purpose::consensus, root, root ? source() : std::shared_ptr<StateSource>()});
  if (writers.own != nullptr) targets_.push_back({writers.own, Purpose::own_model, !root, source()});
  if (resident_ == nullptr) return;
  resident_write_s_ = expected_resident_s(resident_->bytes());
  if (resident_->writer() == nullptr) return;
  std::shared_ptr<StateSource> values;
  if (resident_->writes_checkpoint())
    values = root && writers.shared != nullptr ? targets_.front().shared : source();
  targets_.push_back({resident_->writer(), Purpose::in_memory, false, values});
}

void Saves::start(const CheckpointState& counters, const StrategyState& state,
                  const std::vector<std::int64_t>& best_steps) {
  last_step_ = counters.step;
  std::int64_t stall_ns = 0;
  {
    const Stopwatch watch(stall_ns);
    const CheckpointState whole = with_numbers(counters, state);
    for (Target& target : targets_)
      if (target.is_on_disk()) start(target, whole, state, best_steps);
  }
  add_stall(stall_ns);
}

void Saves::start_resident(const CheckpointState& counters, const StrategyState& state) {
  const auto target = std::ranges::find(targets_, Purpose::in_memory, &Target::purpose);
  // Equal files on all hosts, also in what only worker 0 knows; nothing while it still reads a checkpoint.
  std::string text;
  if (run_.machine.workers.is_root() && source_is_read(*target))
    text = nlohmann::json(with_numbers(counters, state)).dump();
  run_.machine.workers.broadcast(text);
  if (text.empty() || target == targets_.end()) return;
  std::int64_t stall_ns = 0;
  {
    const Stopwatch watch(stall_ns);
    start(*target, nlohmann::json::parse(text).get<CheckpointState>(), state, {});
  }
  stall_ns_ += stall_ns;
  report(*target);
}

void Saves::end_resident() {
  if (resident_ == nullptr) return;
  std::erase_if(targets_, [](const Target& target) { return !target.is_on_disk(); });
  resident_->end();
}

/// Whether no other target's writer still reads from the source of this one.
bool Saves::source_is_read(const Target& target) {
  return std::ranges::all_of(targets_, [&](const Target& other) {
    return other.writer == target.writer || !other.shared || other.shared != target.shared ||
           other.writer->wait_until_read_for(0.0);
  });
}

/// The state of a checkpoint, with the numbers that strategy and loss scale have now.
CheckpointState Saves::with_numbers(const CheckpointState& counters, const StrategyState& state) const {
  CheckpointState whole = counters;
  whole.numbers.insert(state.numbers.begin(), state.numbers.end());
  const std::map<std::string, double> scale = run_.model.loss_scale.numbers();
  whole.numbers.insert(scale.begin(), scale.end());  // worker 0's
  return whole;
}

void Saves::start(Target& target, const CheckpointState& whole, const StrategyState& state,
                  const std::vector<std::int64_t>& best_steps) {
  const bool parts = target.purpose != Purpose::own_model && !state.own.empty();
  if (!target.shared && !parts) return;
  if (parts && !target.own)
    target.own = std::make_shared<WorkerStateSource>(
        *run_.model.network, state.own, run_.sync.embeddings ? run_.sync.embeddings->local() : nullptr);
  wait_for_disk(target, [&](double seconds) { return target.writer->finish_for(seconds); });
  wait_for_disk(target, [&](double) { return source_is_read(target); });
  if (target.shared)
    target.shared->take(target.purpose == Purpose::own_model ? run_.sync.strategy->live() : state.shared);
  if (parts) target.own->take(state.own);
  target.writer->start({.state = whole,
                        .shared = target.shared,
                        .own = parts ? target.own : nullptr,
                        .own_numbers = run_.model.loss_scale.numbers(),
                        .best_steps = best_steps});
  being_read_ =
      being_read_ || (target.shared && !target.shared->copies()) || (parts && !target.own->copies());
}

void Saves::give_up(std::int64_t step, const std::string& why) {
  for (Target& target : targets_) {
    if (!target.is_on_disk()) continue;
    target.failure = cat("the checkpoint of step ", step, " was not saved: ", why);
    if (reports_failure(target)) reporter_.warn(target.failure);
  }
}

void Saves::wait_until_read(std::int64_t step) {
  if (!being_read_) return;
  const trace::Span span("wait for checkpoint");
  run_.machine.watchdog.beat("saving", step);
  std::int64_t stall_ns = 0;
  {
    const Stopwatch watch(stall_ns);
    for (const Target& target : targets_)
      wait_for_disk(target, [&](double seconds) { return target.writer->wait_until_read_for(seconds); });
  }
  being_read_ = false;
  add_stall(stall_ns);
}

void Saves::add_stall(std::int64_t stall_ns) {
  stall_ns_ += stall_ns;
  if (std::ranges::any_of(targets_, &Target::speaks)) stalls_[last_step_] += seconds(stall_ns);
}

void Saves::report() {
  for (Target& target : targets_) report(target);
}

void Saves::report(Target& target) {
  for (const SaveReport& saved : target.writer->reports()) {
    const bool failed_before = !std::exchange(target.failure, saved.error).empty();
    if (!target.is_on_disk()) {
      resident_write_s_ = saved.processor_s;
      if (!saved.error.empty() && !failed_before) reporter_.warn(cat("in memory: ", saved.error));
      continue;
    }
    if (!saved.warning.empty()) reporter_.warn(saved.warning);
    longest_write_s_ = std::max(longest_write_s_, saved.write_s);
    if (!saved.error.empty()) {
      if (reports_failure(target)) reporter_.warn(saved.error);
    } else if (target.speaks) {  // a worker's own model, saved in addition to the consensus, is not reported
      reporter_.checkpoint({.step = saved.step,
                            .path = saved.path,
                            .bytes = saved.bytes,
                            .stall_s = stalls_[saved.step],
                            .write_s = saved.write_s});
    }
    if (target.speaks) stalls_.erase(saved.step);
    if (!saved.error.empty() || !target.is_consensus()) continue;
    last_good_ = saved.path;
    if (!target.speaks || resident_ == nullptr) continue;
    try {
      resident_->set_base_checkpoint(saved.step);
    } catch (const UserError& error) {
      reporter_.warn(error.what());
    }
  }
}

bool Saves::reports_failure(const Target& target) {
  return target.speaks || !target.is_consensus();
}

void Saves::wait_for_disk(const Target& target, const std::function<bool(double seconds)>& wait) {
  std::int64_t seen = -1;
  while (!wait(look_at_disk_s)) {
    const std::int64_t movements = target.writer->movements();
    if (movements == seen) continue;
    run_.machine.watchdog.beat_at_disk();
    seen = movements;
  }
}

void Saves::finish() {
  for (const Target& target : targets_)
    wait_for_disk(target, [&](double seconds) { return target.writer->finish_for(seconds); });
  report();
}

void Saves::finish_last(std::int64_t step) {
  if (targets_.empty()) return;
  run_.machine.watchdog.beat("writing the last checkpoint", step);
  finish();
  for (const Target& target : targets_)
    if (target.is_on_disk() && !target.failure.empty() && reports_failure(target))  // ends the job for all
      throw UserError(cat("the last checkpoint could not be written: ", target.failure,
                          "; fix this and rerun; ", last_good()));
}

std::string Saves::last_good() const {
  std::string path = last_good_;
  if (!run_.machine.workers.is_root()) {  // where only worker 0 writes it knows what it wrote
    try {
      const auto files = checkpoints_in(run_.config.run.output + "/checkpoints");
      if (!files.empty()) path = files.rbegin()->second;
    } catch (const UserError&) {
      // The folder may be gone; the failure that is being reported matters more.
    }
  }
  return path.empty() ? "no checkpoint was written" : "the last good checkpoint is " + path;
}

}  // namespace flotilla
