// SPDX-License-Identifier: Apache-2.0
#include "src/commands/load.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/config/values.hpp"
#include "src/files/file_error.hpp"
#include "src/files/folders.hpp"
#include "src/job/failure.hpp"
#include "src/train/model_state.hpp"
#include "src/train/worker_state_source.hpp"

namespace flotilla {

namespace {

/// As text to broadcast.
std::string pack(const LoadedCheckpoint& checkpoint) {
  return nlohmann::json{{"path", checkpoint.path}, {"state", checkpoint.state}}.dump();
}

LoadedCheckpoint unpack(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  LoadedCheckpoint checkpoint;
  json.at("path").get_to(checkpoint.path);
  json.at("state").get_to(checkpoint.state);
  return checkpoint;
}

/// Runs `read`. @throws UserError with the remedy, where it throws UnreadableFile: an older checkpoint in its
/// place would lose the steps between them.
template <class Read>
auto refusing_unreadable(Read read) {
  try {
    return read();
  } catch (const UnreadableFile& error) {
    throw UserError(
        cat(error.what(), "; nothing was changed: make it readable, or move it away to use an older one"));
  }
}

/// Collective. Runs `read` on rank 0 and gives its state to the others; nothing if it found nothing.
template <class Read>
std::optional<LoadedCheckpoint> read_on_root(const mpi::Communicator& world, Read read) {
  std::optional<LoadedCheckpoint> found;
  agree(world, [&] {
    if (world.is_root()) found = refusing_unreadable(read);
  });
  std::string text = found ? pack(*found) : std::string();
  world.broadcast(text);
  if (!world.is_root() && !text.empty()) found = unpack(text);
  return found;
}

/// @throws UserError if that cannot be told: a run that took it for no would begin anew, over what is there.
bool has_checkpoints(const std::string& output) {
  const std::string folder = output + "/checkpoints";
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == ".h5") return true;
  if (error && error != std::errc::no_such_file_or_directory)
    throw UserError(cat("cannot tell whether ", folder, " holds checkpoints: ", error.message(),
                        "; nothing was changed: make it readable, or choose another run.output"));
  return false;
}

std::string file_of(const std::string& path, std::vector<std::string>& warnings, int workers = -1) {
  return checkpoint_at(
      path, [&](const std::string& text) { warnings.push_back(text); }, workers);
}

std::string absolute(const std::string& file) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(file, error);
  if (error) throw UserError(cat("cannot find the folder of '", file, "': ", error.message()));
  std::string text = path.lexically_normal().string();
  if (!config::is_utf8(text))  // ranks tell one another of it as JSON
    throw UserError(
        cat("the checkpoint is ", config::quoted(text), ", which is not UTF-8: rename that folder"));
  return text;
}

LoadedCheckpoint read_state(const std::string& file, CheckpointFile::Content content) {
  return {.path = absolute(file), .state = CheckpointFile(file, content).state()};
}

/// What `run.resume` names. @throws UserError if it is not there.
const std::string& named_by_resume(const std::string& path) {
  if (!is_there(path))
    throw UserError(
        cat("run.resume = \"", path,
            "\": there is no such file; give a checkpoint, a run's folder, \"auto\" or \"never\""));
  return path;
}

/// The newest good checkpoint of a run that has some. To start anew instead would throw its work away. Where
/// none has good parts of all workers, the newest that is good without them, and a warning.
LoadedCheckpoint find_newest(const std::string& output, int workers, std::vector<std::string>& warnings) {
  std::string newest_damage;
  const auto found = find_newest_good(
      output,
      [&](const std::string& text) {
        if (newest_damage.empty()) newest_damage = text;
        warnings.push_back(text);
      },
      workers);
  if (found) return read_state(*found, CheckpointFile::Content::everything);
  const auto shared = find_newest_good(output, [](const std::string&) {});
  if (!shared)
    throw UserError(cat("none of the checkpoints in ", output, "/checkpoints is good",
                        newest_damage.empty() ? "" : cat(" (the newest: ", newest_damage, ")"),
                        "; to start anew, move them away or choose another run.output"));
  warnings.push_back(cat("no checkpoint has good parts of all ", workers,
                         " workers: they begin with the model in '", *shared,
                         "', and what each held for itself is lost"));
  LoadedCheckpoint checkpoint = read_state(*shared, CheckpointFile::Content::everything);
  checkpoint.state.parts.clear();
  return checkpoint;
}

bool is_of_strategy(const StateArray& array) {
  return array.group.starts_with("strategy/");
}

/// Samples are counted and shared out by their number in the data.
void check_training_data(const LoadedCheckpoint& checkpoint, std::int64_t samples) {
  const std::int64_t saved = checkpoint.state.training_samples;
  if (saved != 0 && saved != samples)
    throw UserError(cat("cannot resume from ", checkpoint.path, ": data.train had ", saved,
                        " samples when it was saved, and has ", samples,
                        " now; give it the same ones, or start another run from its weights "
                        "(model.initial_weights)"));
}

/// This worker's part into the groups that it holds, the checkpoint into the others.
void restore_own(const LoadedCheckpoint& checkpoint, const CheckpointPart& saved, RunParts& run) {
  const std::string path = part_file(checkpoint.path, saved);
  if (const std::string damage = part_damage(checkpoint.path, saved); !damage.empty())
    throw UserError(cat("cannot resume from ", checkpoint.path, ": ", damage,
                        "; name an older checkpoint in run.resume, or use another number of workers, which "
                        "begin with what all shared"));
  CheckpointFile part(path, CheckpointFile::Content::everything);
  std::vector<StateArray> own;
  std::vector<StateArray> shared;
  for (const StateArray& array : run.sync.strategy->live())
    (has_group(part, array.group) ? own : shared).push_back(array);
  restore(part, path, *run.model.network, own);
  run.model.loss_scale.set_numbers(part.state().numbers);
  // Workers that step alone skip steps of their own, so they have counts of their own.
  if (run.model.optimizer) run.model.optimizer->set_steps(part.state().optimizer_step);
  if (run.sync.embeddings && run.sync.embeddings->local() != nullptr)
    restore_rows(path, *run.sync.embeddings->local());
  if (shared.empty()) return;
  CheckpointFile file(checkpoint.path, CheckpointFile::Content::everything);
  restore(file, checkpoint.path, *run.model.network, shared);
}

void restore_shared(const LoadedCheckpoint& checkpoint, bool same_strategy, RunParts& run) {
  std::vector<StateArray> arrays = run.sync.strategy->live();
  if (!same_strategy) std::erase_if(arrays, is_of_strategy);
  CheckpointFile file(checkpoint.path, CheckpointFile::Content::everything);
  restore(file, checkpoint.path, *run.model.network, arrays);
}

/// The files that hold the rows of a checkpoint's tables: its servers' parts, or itself where it was
/// exported; none without tables. @throws UserError if one is damaged or of another save
std::vector<std::string> row_files_of(const LoadedCheckpoint& checkpoint) {
  std::vector<std::string> files;
  for (const CheckpointPart& part : checkpoint.state.server_parts) {
    if (const std::string damage = part_damage(checkpoint.path, part); !damage.empty())
      throw UserError(cat("cannot use ", checkpoint.path, ": ", damage, "; name an older checkpoint"));
    files.push_back(part_file(checkpoint.path, part));
  }
  if (files.empty() && !RowFileReader(checkpoint.path).tables().empty()) files.push_back(checkpoint.path);
  return files;
}

/// Checkpoints of a run that is set back stay, and "auto" would take them again.
void warn_of_later(const std::string& output, std::int64_t step, std::vector<std::string>& warnings) {
  if (!has_checkpoints(output)) return;
  const auto files = checkpoints_in(output + "/checkpoints");
  if (!files.empty() && files.rbegin()->first > step)
    warnings.push_back(cat("'", files.rbegin()->second, "' is later than step ", step,
                           ", from which this run goes on: move it away, or run.resume = \"auto\" will take "
                           "it the next time"));
}

/// What a strategy keeps from step to step depends on these: "strategy.kind = "local-sgd"".
std::string kinds_of(const Config& config) {
  const StrategyConfig& strategy = config.strategy;
  std::string text = cat("strategy.kind = \"", strategy.kind, "\"");
  if (strategy.outer.kind != "none") text += cat(", strategy.outer.kind = \"", strategy.outer.kind, "\"");
  // The other modes keep the same.
  if (strategy.kind == "parameter-server" && config.server.mode == "geo") text += ", server.mode = \"geo\"";
  return text;
}

/// Whether the checkpoint holds what this run's strategy keeps.
bool is_of_same_strategy(const LoadedCheckpoint& checkpoint, RunParts& run) {
  if (kinds_of(read_saved_deck(checkpoint.state.deck)) != kinds_of(run.config)) return false;
  const CheckpointFile file(checkpoint.path, CheckpointFile::Content::everything);
  return std::ranges::all_of(run.sync.strategy->live(), [&](const StateArray& array) {
    return !is_of_strategy(array) || has_group(file, array.group);
  });
}

}  // namespace

LoadedDeck load_deck_everywhere(const std::string& path, const std::vector<std::string>& overrides,
                                const mpi::Communicator& world) {
  std::string text;
  agree(world, [&] {
    if (world.is_root()) text = read_deck_file(path);
  });
  world.broadcast(text);
  LoadedDeck deck;
  agree(world, [&] { deck = load_deck({.path = path, .text = text, .overrides = overrides}); });
  return deck;
}

LoadedCheckpoint load_checkpoint_everywhere(const std::string& path, const mpi::Communicator& world,
                                            std::vector<std::string>& warnings) {
  return *read_on_root(world, [&]() -> std::optional<LoadedCheckpoint> {
    return read_state(file_of(path, warnings), CheckpointFile::Content::weights);
  });
}

std::vector<std::string> load_initial_weights(RunParts& run, std::vector<std::string>& warnings) {
  const std::string& path = run.config.model.initial_weights;
  std::vector<std::string> lines;
  if (path.empty()) return lines;
  agree(run.machine.workers, [&] {
    const mpi::Working working(run.machine.watchdog, "reading the initial weights");
    if (!run.machine.workers.is_root()) return;
    const std::string file = file_of(path, warnings);
    CheckpointFile weights(file, CheckpointFile::Content::weights);
    lines = load_matching(weights, file, *run.model.network, run.model.weights);
    if (run.sync.embeddings) {
      const std::vector<std::string> rows = row_files_of({absolute(file), weights.state()});
      lines.push_back(rows.empty() ? cat(file, " has no rows of embeddings: they begin anew")
                                   : cat("rows of embeddings from ", rows.size(), " file(s)"));
      run.machine.servers->set_row_files(rows);
    }
  });
  return lines;
}

std::optional<LoadedCheckpoint> find_beginning(const Config& config, const mpi::Communicator& world,
                                               mpi::Watchdog& watchdog, std::vector<std::string>& warnings) {
  return read_on_root(world, [&]() -> std::optional<LoadedCheckpoint> {
    const mpi::Working working(watchdog, "looking for a checkpoint");
    const std::string& output = config.run.output;
    const bool present = has_checkpoints(output);
    if (config.run.resume == "never") {
      if (present)
        throw UserError(
            cat(output,
                " holds checkpoints and run.resume = \"never\": choose another run.output, remove the "
                "folder, or set run.resume = \"auto\" to go on"));
      return std::nullopt;
    }
    const bool newest = config.run.resume == "auto";
    if (newest && !present) return std::nullopt;
    std::optional<LoadedCheckpoint> found =
        newest ? find_newest(output, world.size(), warnings)
               : read_state(file_of(named_by_resume(config.run.resume), warnings, world.size()),
                            CheckpointFile::Content::everything);
    if (!newest) {
      warn_of_later(output, found->state.step, warnings);
    }
    if (found->state.inference_only)
      throw UserError(cat(found->path,
                          " was made by `flotilla export` and cannot be resumed: give it as "
                          "model.initial_weights, or resume from a checkpoint"));
    const std::string difference = difference_that_forbids_resuming(found->state.deck, config.resolved_text);
    if (!difference.empty())
      throw UserError(cat("cannot resume from ", found->path, ": ", difference,
                          "; choose another run.output to start anew, or restore the key"));
    return found;
  });
}

Continuation restore_run(const LoadedCheckpoint& checkpoint, RunParts& run) {
  const CheckpointState& state = checkpoint.state;
  const mpi::Communicator& world = run.machine.workers;
  const std::size_t parts = state.parts.size();
  Continuation continuation;
  agree(world, [&] {
    const mpi::Working working(run.machine.watchdog, "reading the checkpoint");
    check_training_data(checkpoint, run.data.training->size());
    refusing_unreadable([&] {
      const bool same_strategy = is_of_same_strategy(checkpoint, run);
      continuation.own_state = same_strategy && parts == static_cast<std::size_t>(world.size());
      if (same_strategy) continuation.numbers = state.numbers;
      if (!same_strategy)
        continuation.note = cat("the checkpoint has not all that this strategy keeps, it is of ",
                                kinds_of(read_saved_deck(state.deck)), ": all workers begin with its model");
      else if (parts > 0 && !continuation.own_state)
        continuation.note = cat("the checkpoint is of ", parts, " workers: all ", world.size(),
                                " begin with its model, what each held for itself is left");
      run.model.loss_scale.set_numbers(state.numbers);
      if (run.model.optimizer) run.model.optimizer->set_steps(state.optimizer_step);
      if (continuation.own_state)
        restore_own(checkpoint, state.parts[static_cast<std::size_t>(world.rank())], run);
      else if (world.is_root())
        restore_shared(checkpoint, same_strategy, run);
      // Worker 0 tells the servers.
      if (run.sync.embeddings && world.is_root())
        run.machine.servers->set_row_files(row_files_of(checkpoint));
    });
  });
  return continuation;
}

}  // namespace flotilla
