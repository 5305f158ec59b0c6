// SPDX-License-Identifier: Apache-2.0
#include "src/train/checkpoints.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/train/beginning.hpp"

namespace flotilla {

namespace {

constexpr double max_steps_between = 1e9;  ///< Between two questions of a SaveClock

/// The share of the time that writing states in memory takes. What it takes of caches and of a core that
/// hardware threads share is not measured, and about twice as much.
constexpr double memory_share = 0.003;
constexpr double first_in_memory_s = 1.0;  ///< Runs that end sooner keep none

}  // namespace

SaveClock::SaveClock(double every_s, std::int64_t step, std::int64_t now_ns)
    : every_s_(every_s), next_(step + 1), saved_ns_(now_ns), asked_step_(step), asked_ns_(now_ns) {}

bool SaveClock::ask(const mpi::Communicator& workers, std::int64_t steps, std::int64_t now_ns) {
  const double step_s =
      seconds(std::max<std::int64_t>(1, now_ns - asked_ns_)) / static_cast<double>(steps - asked_step_);
  double left_s = every_s_ - seconds(now_ns - saved_ns_);
  const bool due = left_s < step_s / 2.0;
  if (due) left_s = every_s_;
  const auto wait = static_cast<std::int64_t>(std::clamp(left_s / step_s / 2.0, 1.0, max_steps_between));
  std::array<std::int64_t, 2> decided{due ? 1 : 0, steps + wait};
  workers.broadcast(std::span<std::int64_t>(decided));
  next_ = decided[1];
  asked_step_ = steps;
  asked_ns_ = now_ns;
  return decided[0] != 0;
}

Checkpoints::Checkpoints(Parts parts) : parts_(std::move(parts)), last_step_(parts_.state.step) {
  for (const StateArray& array : parts_.run.sync.strategy->live())
    saved_floats_ += static_cast<std::int64_t>(array.values.size());
}

void Checkpoints::begin() {
  const double every_s = parts_.run.config.checkpoint.every_s;
  if (every_s > 0.0) clock_.emplace(every_s, parts_.state.step, trace::now_ns());
  if (const double write_s = parts_.saves.resident_write_s(); write_s > 0.0)
    memory_clock_.emplace(std::max(first_in_memory_s, write_s / memory_share), parts_.state.step,
                          trace::now_ns());
}

bool Checkpoints::is_planned(std::int64_t step) const {
  const std::int64_t every = parts_.run.config.checkpoint.every;
  return every > 0 && step % every == 0;
}

bool Checkpoints::plan_question(bool synchronises) {
  const Pace pace = parts_.run.sync.strategy->pace();
  const bool may_ask = pace.may_synchronise;
  asks_clock_ = may_ask && clock_ && clock_->asks_after(parts_.state.step + 1);
  asks_memory_clock_ = may_ask && (synchronises || asks_clock_ || pace.meets) && memory_clock_ &&
                       memory_clock_->asks_after(parts_.state.step + 1);
  return asks_clock_;  // for a state in memory no outcome over all workers is needed, so metrics do not
                       // depend on it
}

void Checkpoints::save_if_due() {
  if (is_due()) {
    save();
  } else if (asks_memory_clock_ &&
             memory_clock_->ask(parts_.run.machine.workers, parts_.state.step, trace::now_ns())) {
    keep_in_memory();
  }
}

bool Checkpoints::is_due() {
  const std::int64_t step = parts_.state.step;
  if (asks_clock_) {
    parts_.run.machine.watchdog.beat("asking whether to save", step);
    if (clock_->ask(parts_.run.machine.workers, step, trace::now_ns())) return true;
  }
  return is_planned(step) || parts_.validations.improved();
}

double Checkpoints::expected_s() const {
  const double longest_s = seconds(longest_ns_) + parts_.saves.longest_write_s();
  return longest_s > 0.0 ? longest_s : static_cast<double>(saved_floats_) * sizeof(float) / 100e6;
}

std::int64_t Checkpoints::expected_after_next_step(const Position& next) const {
  const std::int64_t step = parts_.state.step + 1;
  const Validations& validations = parts_.validations;
  return (is_planned(step) || (clock_ && clock_->asks_after(step)) ? 1 : 0) +
         (validations.keeps_best() && validations.is_due(next) ? 1 : 0);
}

void Checkpoints::save_again() {
  last_step_ = -1;
  save();
}

void Checkpoints::save() {
  RunParts& run = parts_.run;
  const std::int64_t step = parts_.state.step;
  if (last_step_ == step && step > 0) return;
  const trace::Span span("checkpoint");
  const std::int64_t begin_ns = trace::now_ns();
  const Stopwatch whole(parts_.state.times.saving_ns);
  parts_.saves.wait_until_read(step);
  run.machine.watchdog.beat("saving", step);
  parts_.checks.check_agreement();
  CheckpointState saved = counters();
  const std::string failure = save_rows(saved);
  const StrategyState state = run.sync.strategy->state();
  parts_.loaders.estimate_statistics(parts_.state.position, {state.shared[0].values, state.shared[1].values});
  parts_.checks.check_finite(state);
  last_step_ = step;
  const BestValidation& best = parts_.validations.best();
  saved.optimizer_step = state.optimizer_steps;
  parts_.validations.saved();
  // All workers save or none does: they exchange what became of their parts.
  if (failure.empty()) {
    parts_.saves.start(saved, state,
                       parts_.validations.keeps_best() ? best.steps() : std::vector<std::int64_t>());
  } else {
    parts_.saves.give_up(step, failure);
  }
  if (clock_) clock_->saved(begin_ns);
  if (memory_clock_) memory_clock_->saved(begin_ns);
  parts_.state.times.stall_ns = parts_.saves.stall_ns();
  longest_ns_ = std::max(longest_ns_, trace::now_ns() - begin_ns);
}

/// Collective. Less than a save: what hosts hold is compared where it is used.
void Checkpoints::keep_in_memory() {
  RunParts& run = parts_.run;
  const trace::Span span("state in memory");
  const std::int64_t begin_ns = trace::now_ns();
  const Stopwatch whole(parts_.state.times.saving_ns);
  parts_.saves.wait_until_read(parts_.state.step);
  run.machine.watchdog.beat("keeping the state in memory", parts_.state.step);
  const StrategyState state = run.sync.strategy->state();
  parts_.checks.check_finite(state);
  CheckpointState saved = counters();
  saved.optimizer_step = state.optimizer_steps;
  parts_.saves.start_resident(saved, state);
  memory_clock_->saved(begin_ns);
  memory_clock_->set_every((seconds(trace::now_ns() - begin_ns) + parts_.saves.resident_write_s()) /
                           memory_share);
  parts_.state.times.stall_ns = parts_.saves.stall_ns();
}

/// The progress of the training, and what it depends on.
CheckpointState Checkpoints::counters() const {
  const RunParts& run = parts_.run;
  CheckpointState state{
      .step = parts_.state.step,
      .position = parts_.state.position,
      .samples = parts_.state.samples,
      .seed = run.config.run.seed,
      .optimizer_step = 0,
      .deck = run.config.resolved_text,
      .versions = {{"flotilla", parts_.build}, {"device", run.machine.device->info().description}},
      .choices = run.sync.choices,
      .numbers = parts_.validations.numbers(),
      .training_samples = run.data.training->size()};
  if (run.config.train.seconds > 0.0) state.numbers[trained_seconds] = parts_.state.trained_s();
  for (const auto* texts : {&run.data.identities, &parts_.changes})
    state.choices.insert(texts->begin(), texts->end());
  if (const std::string names = text_of_class_names(run.data.class_names); !names.empty())
    state.choices["data.class_names"] = names;
  return state;
}

/// Collective. The servers' parts of a checkpoint, before any worker goes on: their rows and the optimizer's
/// state are of one moment. @returns why the checkpoint cannot be written, equal on all workers; empty: it
/// can
std::string Checkpoints::save_rows(CheckpointState& state) {
  const Machine& machine = parts_.run.machine;
  std::string failure;
  if (!parts_.run.sync.embeddings || !parts_.saves.keeps_consensus()) return failure;
  machine.watchdog.beat("waiting for the servers to save", state.step);
  if (machine.workers.is_root()) {
    try {
      state.server_parts = save_rows_of_servers(state);
    } catch (const UserError& error) {
      failure = error.what();
    }
  }
  machine.workers.broadcast(failure);
  return failure;
}

/// To be called on worker 0. @throws UserError if one of the servers failed; no server has left a part then.
std::vector<CheckpointPart> Checkpoints::save_rows_of_servers(const CheckpointState& state) {
  ServerLink& servers = *parts_.run.machine.servers;
  const CheckpointFolder folder(parts_.run.config.run.output + "/checkpoints");
  try {
    folder.make_parts(state.step);
    std::vector<std::string> paths;
    for (int i = 0; i < servers.roles().table().count(mpi::Role::server); ++i)
      paths.push_back(folder.server_part_path(state.step, i));
    return servers.save_rows(paths, state);
  } catch (const UserError&) {
    folder.remove_orphaned_parts(state.step);
    throw;
  }
}

}  // namespace flotilla
