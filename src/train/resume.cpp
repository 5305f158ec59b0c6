// SPDX-License-Identifier: Apache-2.0
#include "src/train/resume.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/config/deck.hpp"
#include "src/config/values.hpp"
#include "src/data/input_form.hpp"
#include "src/job/failure.hpp"
#include "src/strategy/local_sgd/period.hpp"
#include "src/train/model_state.hpp"
#include "src/train/monitor/agreement.hpp"
#include "src/train/worker_state_source.hpp"

namespace flotilla {

namespace {

bool is_of_strategy(const StateArray& array) {
  return array.group.starts_with("strategy/");
}

/// Whether an array begins anew because the checkpoint's run did not have it.
bool begins_anew(const StateArray& array, const ValueSource& file) {
  return array.tensors != nullptr && !has_group(file, array.group);
}

/// The data must be those of the checkpoint, but may lie elsewhere, and hold other samples where
/// run.resume_with says so. @returns a note for each set to which that applies
/// @param differences become of_machine for data that lie elsewhere; others are added
/// @throws UserError if they are others
std::vector<std::string> compare_data(const LoadedCheckpoint& checkpoint, const RunParts& run,
                                      std::vector<ResumeDifference>& differences) {
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw UserError(cat("cannot resume from ", checkpoint.path, ": ", what, "; give it the same ones, ",
                        remedy, "or start another run from its weights (model.initial_weights)"));
  };
  // Samples are counted and shared out by their number in the data.
  const std::int64_t saved = checkpoint.state.training_samples;
  const std::int64_t samples = run.data.training->size();
  if (saved != 0 && saved != samples)
    refuse(cat("data.train had ", saved, " samples when it was saved, and has ", samples, " now"), "");
  std::vector<std::string> notes;
  for (const std::string set : {"data.train", "data.validation"}) {
    const auto before = checkpoint.state.choices.find(set);
    if (before == checkpoint.state.choices.end()) continue;
    const auto now = run.data.identities.find(set);
    const std::string identity = now == run.data.identities.end() ? "none" : now->second;
    const auto moved = std::ranges::find(differences, set, [](const ResumeDifference& difference) {
      return config::table_of(difference.key);
    });
    if (before->second != identity) {
      const std::string what =
          cat(set, " holds other samples than when it was saved (", before->second, "; ", identity,
              " now), by labels, sizes and ", identified_samples, " samples that were read");
      if (!run.config.run.resumes_with(set)) refuse(what, cat("allow others by run.resume_with=", set, ", "));
      notes.push_back(cat("data         ", what, ", as run.resume_with allows"));
      differences.push_back({set, before->second, identity, config::OnResume::may_change});
    } else if (moved != differences.end()) {
      notes.push_back(cat("data         ", set, " lies elsewhere and holds the same samples (", identity,
                          "): ", moved->text()));
      for (ResumeDifference& difference : differences)
        if (config::table_of(difference.key) == set) difference.on_resume = config::OnResume::of_machine;
    }
  }
  return notes;
}

/// The inputs and targets must be scaled as before, unless run.resume_with names the keys that say how.
/// @returns notes about their types
/// @throws UserError if they are scaled otherwise
std::vector<std::string> compare_scaling(const LoadedCheckpoint& checkpoint, const RunParts& run,
                                         const std::vector<ResumeDifference>& differences) {
  std::vector<std::string> notes;
  const bool changed = std::ranges::any_of(differences, [](const ResumeDifference& difference) {
    return difference.key.starts_with("data.") &&
           (difference.key.ends_with("mean") || difference.key.ends_with("std"));
  });
  const auto& saved = checkpoint.state.choices;
  if (changed || !saved.contains("model.inputs")) return notes;
  try {
    if (saved.contains("model.targets"))
      compare_targets(saved.at("model.targets"), run.data.identities.at("model.targets"));
    const std::string note =
        compare_inputs(saved.at("model.inputs"), run.data.identities.at("model.inputs"), "data.train");
    if (!note.empty()) notes.push_back(cat("data         ", note));
  } catch (const UserError& error) {
    throw UserError(cat("cannot resume from ", checkpoint.path, ": ", error.what()));
  }
  return notes;
}

/// Whether run.resume_with has let it differ. Paths differ without where the data are compared.
bool is_change(const ResumeDifference& difference, const CheckpointState& state) {
  return difference.on_resume == config::OnResume::on_request ||
         (difference.on_resume == config::OnResume::same_samples &&
          !state.choices.contains(config::table_of(difference.key)));
}

/// The differences between the decks, and in the number of workers, which the deck leaves open.
std::vector<ResumeDifference> differences_to_run(const CheckpointState& state, const RunParts& run) {
  std::vector<ResumeDifference> differences = differences_at_resume(state.deck, run.config.resolved_text);
  const std::string workers = run.sync.choices.at(chosen_workers);
  if (const auto saved = state.choices.find(chosen_workers);
      saved != state.choices.end() && saved->second != workers)
    differences.push_back({chosen_workers, saved->second, workers, config::OnResume::of_machine});
  return differences;
}

/// The differences that need no run.resume_with.
std::vector<ResumeDifference> free_changes(std::vector<ResumeDifference> differences) {
  std::erase_if(differences, [](const ResumeDifference& difference) {
    return !difference.is_of_machine() && difference.on_resume != config::OnResume::may_change;
  });
  return differences;
}

constexpr std::string_view change_at = "changed at step ";

/// Differences that run.resume_with has allowed, by the step of the resume, in this one and in those before.
std::map<std::string, std::string> changes_by_step(const CheckpointState& state,
                                                   const std::vector<ResumeDifference>& differences) {
  std::map<std::string, std::string> changes;
  for (const auto& [name, text] : state.choices)
    if (name.starts_with(change_at)) changes.emplace(name, text);
  std::string all;
  for (const ResumeDifference& difference : differences)
    if (is_change(difference, state)) all += (all.empty() ? "" : ", ") + difference.text();
  if (!all.empty()) changes[cat(change_at, state.step)] = all;
  return changes;
}

/// The word of the precision of the run that saved it; "auto" was resolved to one.
std::string saved_precision(const CheckpointState& state) {
  const auto chosen = state.choices.find("device.precision");
  return chosen != state.choices.end() ? chosen->second
                                       : std::string(word(read_saved_deck(state.deck).device.precision));
}

/// Restores this worker's part into the groups that it holds, and the checkpoint into the others.
void restore_own(const LoadedCheckpoint& checkpoint, const CheckpointPart& saved, RunParts& run) {
  const std::string path = part_file(checkpoint.path, saved);
  const std::string damage = checkpoint.good_parts ? "" : part_damage(checkpoint.path, saved);
  if (!damage.empty())
    throw UserError(cat("cannot resume from ", checkpoint.path, ": ", damage,
                        "; name an older checkpoint in run.resume, or use another number of workers, which "
                        "begin with what all shared"));
  CheckpointFile part(path, CheckpointFile::Content::everything);
  std::vector<StateArray> own;
  std::vector<StateArray> shared;
  for (const StateArray& array : run.sync.strategy->live())
    (has_group(part, array.group) ? own : shared).push_back(array);
  // Absent where the wire of the checkpoint's run left no errors: then they begin with zeros.
  for (const StateArray& array : run.sync.wire_errors())
    if (has_group(part, array.group)) own.push_back(array);
  restore(part, path, *run.model.network, own);
  run.model.loss_scale.set_numbers(part.state().numbers);
  // Workers that step alone skip steps of their own, so they have counts of their own.
  if (run.model.optimizer) run.model.optimizer->set_steps(part.state().optimizer_step);
  if (run.sync.embeddings && run.sync.embeddings->local() != nullptr)
    restore_rows(path, *run.sync.embeddings->local());
  if (shared.empty()) return;
  CheckpointFile file(checkpoint.path, CheckpointFile::Content::everything);
  std::erase_if(shared, [&](const StateArray& array) { return begins_anew(array, file); });
  restore(file, checkpoint.path, *run.model.network, shared);
}

/// Counts on each worker, arrays on worker 0.
void restore_shared(const LoadedCheckpoint& checkpoint, bool same_strategy, RunParts& run) {
  run.model.loss_scale.set_numbers(checkpoint.state.numbers);
  if (run.model.optimizer) run.model.optimizer->set_steps(checkpoint.state.optimizer_step);
  if (!run.machine.workers.is_root()) return;
  std::vector<StateArray> arrays = run.sync.strategy->live();
  if (!same_strategy) std::erase_if(arrays, is_of_strategy);
  CheckpointFile file(checkpoint.path, CheckpointFile::Content::everything);
  std::erase_if(arrays, [&](const StateArray& array) { return begins_anew(array, file); });
  restore(file, checkpoint.path, *run.model.network, arrays);
}

/// Whether the checkpoint holds what this run's strategy keeps.
bool is_of_same_strategy(const LoadedCheckpoint& checkpoint, RunParts& run) {
  if (read_saved_deck(checkpoint.state.deck).state_kind() != run.config.state_kind()) return false;
  const CheckpointFile file(checkpoint.path, CheckpointFile::Content::everything);
  return std::ranges::all_of(run.sync.strategy->live(), [&](const StateArray& array) {
    return !is_of_strategy(array) || has_group(file, array.group) || begins_anew(array, file);
  });
}

/// Whether the deck sets the periods of local SGD that the checkpoint's deck sets; a note where not.
void compare_periods(const CheckpointState& state, const Config& config, Continuation& continuation) {
  const LocalSgdConfig* const now = config.local_sgd();
  if (now == nullptr || continuation.numbers.empty()) return;
  const std::string before = period_keys(*read_saved_deck(state.deck).local_sgd());
  continuation.same_periods = before == period_keys(*now);
  if (!continuation.same_periods)
    continuation.notes.push_back(
        cat("period       from this deck: ", period_keys(*now), "; the checkpoint's deck had ", before));
}

/// Collective. Whether the workers' own states are equal where the strategy relies on it.
bool own_states_agree(RunParts& run) {
  AgreementCheck check(run.machine.workers, *run.model.network,
                       state_arrays(run.model.weights, run.model.optimizer.get()));
  return !check.compare(run.sync.strategy->replicated());
}

}  // namespace

LoadedWeights load_initial_weights(RunParts& run, std::vector<std::string>& warnings) {
  const std::string& path = run.config.model.initial_weights;
  LoadedWeights loaded;
  if (path.empty()) return loaded;
  agree(run.machine.workers, [&] {
    const mpi::CpuProgressScope working(run.machine.watchdog, "reading the initial weights");
    if (!run.machine.workers.is_root()) return;
    std::string file;
    try {
      file = checkpoint_file_at(path, warnings);
    } catch (const UserError& error) {
      throw UserError(cat("model.initial_weights: ", error.what()));
    }
    CheckpointFile weights(file, CheckpointFile::Content::weights);
    const WeightNames names = run.config.model.weight_names;
    if (names == WeightNames::order && !weights.keeps_order())
      throw UserError(
          cat("'", file,
              "' does not say in which order its tensors were written, as model.weight_names = "
              "\"order\" needs: write it by scripts/torch_to_hdf5.py, or with h5py make its groups "
              "with track_order=True"));
    loaded = load_matching(weights, file, *run.model.network, run.model.weights, names);
    if (const auto& saved = weights.state().choices; saved.contains("model.inputs")) {
      try {
        compare_inputs(saved.at("model.inputs"), run.data.identities.at("model.inputs"), "data.train");
      } catch (const UserError& error) {
        warnings.push_back(cat("model.initial_weights: ", error.what()));
      }
    }
    if (run.sync.embeddings) {
      const std::vector<std::string> rows = row_files_of({file, weights.state()});
      loaded.summary += rows.empty() ? "; it has no rows of embeddings: they begin anew"
                                     : cat("; rows of embeddings from ", rows.size(),
                                           rows.size() == 1 ? " file" : " files");
      run.machine.servers->set_row_files(rows);
    }
  });
  return loaded;
}

Continuation restore_run(const LoadedCheckpoint& checkpoint, RunParts& run) {
  const CheckpointState& state = checkpoint.state;
  const mpi::Communicator& world = run.machine.workers;
  const std::size_t parts = state.parts.size();
  Continuation continuation;
  agree(world, [&] {
    const mpi::CpuProgressScope working(run.machine.watchdog, "reading the checkpoint");
    std::vector<ResumeDifference>& differences = continuation.differences;
    differences = differences_to_run(state, run);
    if (const std::string free = changes_of(free_changes(differences)); !free.empty())
      continuation.notes.push_back(cat("changed      ", free, " since the checkpoint"));
    for (const std::string& note : compare_data(checkpoint, run, differences))
      continuation.notes.push_back(note);
    for (const std::string& note : compare_scaling(checkpoint, run, differences))
      continuation.notes.push_back(note);
    continuation.changes = changes_by_step(state, differences);
    for (const ResumeDifference& difference : differences)
      if (is_change(difference, state))
        continuation.notes.push_back(cat("changed      ", difference.text(), " (run.resume_with)"));
    refusing_unreadable([&] {
      const bool same_strategy = is_of_same_strategy(checkpoint, run);
      continuation.own_state = same_strategy && parts == static_cast<std::size_t>(world.size());
      if (same_strategy) continuation.numbers = state.numbers;
      compare_periods(state, run.config, continuation);
      if (!same_strategy)
        continuation.notes.push_back(cat("the checkpoint lacks state that this strategy keeps, it is of ",
                                         read_saved_deck(state.deck).state_kind(),
                                         ": all workers begin with its model"));
      else if (parts > 0 && !continuation.own_state)
        continuation.notes.push_back(cat("the checkpoint is of ", parts, " workers: all ", world.size(),
                                         " begin with its model, and each worker's own state is left out"));
      if (const std::string before = saved_precision(state); before != name(run.machine.precision))
        continuation.notes.push_back(cat("precision    ", name(run.machine.precision),
                                         ", and the checkpoint is of a run in ", before));
      if (continuation.own_state)
        restore_own(checkpoint, state.parts[static_cast<std::size_t>(world.rank())], run);
      else
        restore_shared(checkpoint, same_strategy, run);
      // Worker 0 sends the files' names to the servers.
      if (run.sync.embeddings && world.is_root())
        run.machine.servers->set_row_files(row_files_of(checkpoint));
    });
  });
  return continuation;
}

void begin(RunParts& run, const LoadedCheckpoint* resumed, Continuation& continuation) {
  run.machine.watchdog.beat("giving all workers one model", -1);
  Strategy& strategy = *run.sync.strategy;
  if (!continuation.own_state) strategy.start();
  if (resumed == nullptr) return;
  const CheckpointState& state = resumed->state;
  Resumption resumption{.steps = state.step,
                        .steps_before = run.data.sharding.steps_before(state.position),
                        .epochs = epochs_at(run.data.sharding, state.position),
                        .numbers = continuation.numbers,
                        .same_periods = continuation.same_periods,
                        .own_state = continuation.own_state};
  strategy.resume(resumption);
  if (!continuation.own_state || own_states_agree(run)) return;
  continuation.own_state = resumption.own_state = false;
  continuation.notes.push_back(
      "the workers' own models or optimizer states in the checkpoint differ where this deck's strategy keeps "
      "them equal: all workers begin with the checkpoint's one model");
  agree(run.machine.workers, [&] { refusing_unreadable([&] { restore_shared(*resumed, true, run); }); });
  strategy.start();
  strategy.resume(resumption);
}

}  // namespace flotilla
