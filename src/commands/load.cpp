// SPDX-License-Identifier: Apache-2.0
#include "src/commands/load.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/train/failure.hpp"
#include "src/train/model_state.hpp"

namespace flotilla {

namespace {

/// The state without tensors, as text to broadcast.
std::string pack(const LoadedCheckpoint& checkpoint) {
  return nlohmann::json{{"path", checkpoint.path}, {"state", checkpoint.snapshot.state}}.dump();
}

LoadedCheckpoint unpack(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  LoadedCheckpoint checkpoint;
  json.at("path").get_to(checkpoint.path);
  json.at("state").get_to(checkpoint.snapshot.state);
  return checkpoint;
}

/// Collective. Runs `read` on rank 0 and gives its state to the others; nothing if it found nothing.
template <class Read>
std::optional<LoadedCheckpoint> read_on_root(const mpi::Communicator& world, Read read) {
  std::optional<LoadedCheckpoint> found;
  agree(world, [&] {
    if (world.is_root()) found = read();
  });
  std::string text = found ? pack(*found) : std::string();
  world.broadcast(text);
  if (!world.is_root() && !text.empty()) found = unpack(text);
  return found;
}

bool has_checkpoints(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/checkpoints", ignored))
    if (entry.path().extension() == ".h5") return true;
  return false;
}

std::string file_of(const std::string& path, std::vector<std::string>& warnings) {
  return checkpoint_at(path, [&](const std::string& text) { warnings.push_back(text); });
}

std::string absolute(const std::string& file) {
  return std::filesystem::absolute(file).lexically_normal().string();
}

LoadedCheckpoint read_file_or_folder(const std::string& path, std::vector<std::string>& warnings) {
  const std::string file = file_of(path, warnings);
  return {.path = absolute(file), .snapshot = read_checkpoint(file)};
}

/// What `run.resume` names. @throws UserError if it is not there.
const std::string& named_by_resume(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw UserError(cat("run.resume = \"", path, "\": ", error ? error.message() : "there is no such file",
                        "; give a checkpoint, a run's folder, \"auto\" or \"never\""));
  return path;
}

/// The newest good checkpoint of a run that has some. To start anew instead would throw its work away.
LoadedCheckpoint read_newest(const std::string& output, std::vector<std::string>& warnings) {
  std::string newest_damage;
  const auto found = find_newest_good(output, [&](const std::string& text) {
    if (newest_damage.empty()) newest_damage = text;
    warnings.push_back(text);
  });
  if (!found)
    throw UserError(cat("none of the checkpoints in ", output, "/checkpoints is good",
                        newest_damage.empty() ? "" : cat(" (the newest: ", newest_damage, ")"),
                        "; to start anew, move them away or choose another run.output"));
  return read_file_or_folder(*found, warnings);
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
    const std::string file = file_of(path, warnings);
    return LoadedCheckpoint{.path = absolute(file), .snapshot = read_weights(file)};
  });
}

std::vector<std::string> load_initial_weights(Assembly& assembly, std::vector<std::string>& warnings) {
  const std::string& path = assembly.config.model.initial_weights;
  std::vector<std::string> lines;
  if (path.empty()) return lines;
  agree(assembly.world, [&] {
    if (!assembly.world.is_root()) return;
    const std::string file = file_of(path, warnings);
    lines = load_matching(read_weights(file), file, *assembly.network, assembly.model);
  });
  return lines;
}

std::optional<LoadedCheckpoint> find_beginning(const Config& config, const mpi::Communicator& world,
                                               std::vector<std::string>& warnings) {
  return read_on_root(world, [&]() -> std::optional<LoadedCheckpoint> {
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
    std::optional<LoadedCheckpoint> found;
    if (config.run.resume == "auto") {
      if (!present) return std::nullopt;
      found = read_newest(output, warnings);
    } else {
      found = read_file_or_folder(named_by_resume(config.run.resume), warnings);
      warn_of_later(output, found->snapshot.state.step, warnings);
    }
    if (found->snapshot.state.inference_only)
      throw UserError(cat(found->path,
                          " was made by `flotilla export` and cannot be resumed: give it as "
                          "model.initial_weights, or resume from a checkpoint"));
    const std::string difference =
        difference_that_forbids_resuming(found->snapshot.state.deck, config.resolved_text);
    if (!difference.empty())
      throw UserError(cat("cannot resume from ", found->path, ": ", difference,
                          "; choose another run.output to start anew, or restore the key"));
    return found;
  });
}

}  // namespace flotilla
