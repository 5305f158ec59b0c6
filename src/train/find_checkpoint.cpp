// SPDX-License-Identifier: Apache-2.0
#include "src/train/find_checkpoint.hpp"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/config/deck.hpp"
#include "src/config/paths.hpp"
#include "src/config/values.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/job/failure.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/train/beginning.hpp"

namespace flotilla {

namespace {

/// The checkpoint's path and state as text, for a broadcast.
std::string pack(const LoadedCheckpoint& checkpoint) {
  return nlohmann::json{
      {"path", checkpoint.path}, {"state", checkpoint.state}, {"good_parts", checkpoint.good_parts}}
      .dump();
}

LoadedCheckpoint unpack(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  LoadedCheckpoint checkpoint;
  json.at("path").get_to(checkpoint.path);
  json.at("state").get_to(checkpoint.state);
  json.at("good_parts").get_to(checkpoint.good_parts);
  return checkpoint;
}

/// Collective. Runs `read` on rank 0 and gives its state to the others; nothing if it found nothing.
template <class Read>
std::optional<LoadedCheckpoint> read_on_root(const mpi::Communicator& world, Read read) {
  std::optional<LoadedCheckpoint> found;
  agree(world, [&] {
    if (world.is_root()) refusing_unreadable([&] { found = read(); });
  });
  std::string text = found ? pack(*found) : std::string();
  world.broadcast(text);
  if (!world.is_root() && !text.empty()) found = unpack(text);
  return found;
}

/// Verifies the parts of checkpoints on all ranks, each part on one: a worker's part on the worker that will
/// read it. Rank 0 says which, the others take part until it has ended.
class PartChecks {
 public:
  PartChecks(const mpi::Communicator& world, mpi::Watchdog& watchdog) : world_(world), watchdog_(watchdog) {}

  /// A CheckParts, on rank 0. @throws UserError for a part that cannot be read
  std::string check(const std::string& checkpoint, const std::vector<CheckpointPart>& parts) {
    if (parts.empty()) return {};
    std::string text = packed(std::tie(checkpoint, parts));
    tell(text);
    const Finding first = verify(checkpoint, parts);
    if (first.number < none && first.unreadable) throw UserError(first.text);
    return first.text;
  }
  void end() {
    std::string text;
    tell(text);
  }
  /// On the other ranks.
  void take_part() {
    std::string text;
    for (tell(text); !text.empty(); tell(text)) {
      const mpi::CpuProgressScope working(watchdog_, "verifying the parts of a checkpoint");
      const auto [checkpoint, parts] = unpacked<std::pair<std::string, std::vector<CheckpointPart>>>(text);
      verify(checkpoint, parts);
    }
  }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  /// A damaged or unreadable part: its number in the list of parts, and a text for the user.
  struct Finding {
    std::size_t number = none;
    bool unreadable = false;
    std::string text{};
    auto operator<=>(const Finding&) const = default;
    static void pass(auto& own, auto& fields) { fields(own.number, own.unreadable, own.text); }
  };

  /// Collective, from one place in the program. Rank 0's text.
  void tell(std::string& text) const { world_.broadcast(text); }

  Finding verify_own(const std::string& checkpoint, const std::vector<CheckpointPart>& parts) const {
    const auto ranks = static_cast<std::size_t>(world_.size());
    const auto of_servers = static_cast<std::size_t>(std::ranges::count_if(
        parts, [](const CheckpointPart& part) { return part.name.starts_with("server-"); }));
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if ((k + ranks * of_servers - of_servers) % ranks != static_cast<std::size_t>(world_.rank())) continue;
      try {
        std::string damage;
        refusing_unreadable([&] { damage = part_damage(checkpoint, parts[k]); });
        if (!damage.empty()) return {k, false, damage};
      } catch (const UserError& error) {
        return {k, true, error.what()};
      }
    }
    return {};
  }

  /// Collective. The first one that a rank has found.
  Finding verify(const std::string& checkpoint, const std::vector<CheckpointPart>& parts) const {
    const Finding own = verify_own(checkpoint, parts);
    world_.patient_barrier();  // parts may lie on a slow disk
    return std::ranges::min(gather_packed(own, world_));
  }

  const mpi::Communicator& world_;
  mpi::Watchdog& watchdog_;
};

/// @throws UserError if that cannot be determined: to assume that there are none would overwrite them.
bool has_checkpoints(const std::string& output) {
  const std::string folder = output + "/checkpoints";
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == ".h5") return true;
  std::error_code unknown;
  if (std::filesystem::is_regular_file(output, unknown))
    throw UserError(cat("run.output ", output, " is a file; name a folder, or one to be made"));
  if (error && error != std::errc::no_such_file_or_directory)
    throw UserError(cat("cannot determine whether ", folder, " holds checkpoints: ", error.message(),
                        "; nothing was changed: make it readable, or choose another run.output"));
  return false;
}

std::string absolute(const std::string& file) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(file, error);
  if (error) throw UserError(cat("cannot find the folder of '", file, "': ", error.message()));
  std::string text = path.lexically_normal().string();
  if (!config::is_utf8(text))  // ranks send it to each other as JSON
    throw UserError(
        cat("the checkpoint is ", config::quoted(text), ", which is not UTF-8: rename that folder"));
  return text;
}

LoadedCheckpoint read_state(const std::string& file, CheckpointFile::Content content) {
  return {.path = absolute(file), .state = CheckpointFile(file, content).state()};
}

/// The checkpoint that `run.resume` names. @throws UserError if it is not there.
const std::string& named_by_resume(const std::string& path) {
  if (!is_there(path))
    throw UserError(cat(
        "run.resume = \"", path,
        "\": there is no such file; give a checkpoint, a run's folder, \"step-N\" of this run, \"auto\" or "
        "\"never\""));
  return path;
}

/// The newest good checkpoint of a run that has checkpoints: starting from scratch instead would throw its
/// work away. If none has valid parts of all workers, the newest that is good without them, with a warning.
LoadedCheckpoint find_newest(const std::string& output, int workers, std::vector<std::string>& warnings,
                             const CheckParts& check) {
  std::string newest_damage;
  const auto found = find_newest_good(
      output,
      [&](const std::string& text) {
        if (newest_damage.empty()) newest_damage = text;
        warnings.push_back(text);
      },
      workers, check);
  const auto verified = [](const std::string& file) {
    LoadedCheckpoint checkpoint = read_state(file, CheckpointFile::Content::everything);
    checkpoint.good_parts = true;
    return checkpoint;
  };
  if (found) return verified(*found);
  const auto shared = find_newest_good(
      output, [](const std::string&) {}, -1, check);
  if (!shared)
    throw UserError(cat("none of the checkpoints in ", output, "/checkpoints is good",
                        newest_damage.empty() ? "" : cat(" (the newest: ", newest_damage, ")"),
                        "; to start anew, move them away or choose another run.output"));
  warnings.push_back(cat("no checkpoint has good parts of all ", workers,
                         " workers: they begin with the model in '", *shared,
                         "', and what each held for itself is lost"));
  LoadedCheckpoint checkpoint = verified(*shared);
  checkpoint.state.parts.clear();
  checkpoint.good_parts = false;  // of the workers' parts nothing is known
  return checkpoint;
}

/// @throws UserError if a key differs that must not, naming all that run.resume_with may name. Where the
/// checkpoint says what its data were, restore_run compares that instead of paths.
void check_differences(const LoadedCheckpoint& checkpoint, const Config& config) {
  const CheckpointState& state = checkpoint.state;
  std::vector<ResumeDifference> all = differences_at_resume(state.deck, config.resolved_text);
  for (const ResumeDifference& difference : all)
    if (difference.on_resume == config::OnResume::must_match)
      throw UserError(cat("cannot resume from ", checkpoint.path, ": ", difference.text(),
                          "; choose another run.output to start anew, or restore the key"));
  std::erase_if(all, [&](const ResumeDifference& difference) {
    return difference.on_resume == config::OnResume::same_samples &&
           state.choices.contains(config::table_of(difference.key));
  });
  if (const std::string limit = reached_limit(config.train, state.step, state.position); !limit.empty())
    refuse_untrained_changes(checkpoint.path, limit, all);
  std::string differences;
  std::string to_request;
  for (const ResumeDifference& difference : all) {
    const bool free = difference.on_resume == config::OnResume::may_change || difference.is_of_machine();
    if (free || config.run.resumes_with(difference.key)) continue;
    differences += (differences.empty() ? "" : ", ") + difference.text();
    to_request += (to_request.empty() ? "" : ",") + difference.key;
  }
  if (differences.empty()) return;
  throw UserError(cat("cannot resume from ", checkpoint.path, ": ", differences,
                      "; to go on with what the deck says now, give run.resume_with=", to_request,
                      "; to start another run, give another run.output, and to begin with this one's weights "
                      "model.initial_weights = ",
                      config::quoted(checkpoint.path), " too; or restore what the checkpoint has"));
}

/// Checkpoints of a run that is set back stay, and "auto" would take them again.
void warn_of_later(const std::string& output, std::int64_t step, std::vector<std::string>& warnings) {
  if (!has_checkpoints(output)) return;
  const auto files = checkpoints_in(output + "/checkpoints");
  if (!files.empty() && files.rbegin()->first > step)
    warnings.push_back(cat("'", files.rbegin()->second, "' is later than step ", step,
                           ", from which this run goes on: move all later ones away, or run.resume = "
                           "\"auto\" will take the latest the next time, and this run will replace those of "
                           "steps at which it saves"));
}

/// The checkpoint of that step in the run's folder. @throws UserError naming the steps that are there
std::string checkpoint_of_step(const std::string& output, std::int64_t step) {
  const std::string folder = output + "/checkpoints";
  std::string there;
  if (has_checkpoints(output))
    for (const auto& [each, file] : checkpoints_in(folder)) {
      if (each == step) return file;
      there += cat(there.empty() ? "" : ", ", each);
    }
  throw UserError(cat("run.resume = \"step-", step, "\": ", folder, " has no checkpoint of that step",
                      there.empty() ? "" : cat("; it has those of steps ", there)));
}

/// The file that run.resume names, for this number of workers.
std::string named_checkpoint(const RunConfig& run, int workers, std::vector<std::string>& warnings,
                             const CheckParts& check) {
  if (const auto step = config::step_to_resume(run.resume)) return checkpoint_of_step(run.output, *step);
  return checkpoint_file_at(named_by_resume(run.resume), warnings, workers, check);
}

/// The checkpoint that run.resume asks for, for this number of workers.
std::optional<LoadedCheckpoint> choose_beginning(const Config& config, int workers,
                                                 std::vector<std::string>& warnings,
                                                 const CheckParts& check) {
  const std::string& output = config.run.output;
  const bool present = has_checkpoints(output);
  if (config.run.never_resumes()) {
    if (present)
      throw UserError(
          cat(output,
              " holds checkpoints and run.resume = \"never\": choose another run.output, remove the "
              "folder, or set run.resume = \"auto\" to go on"));
    return std::nullopt;
  }
  const bool newest = config.run.resumes_newest();
  if (newest && !present) return std::nullopt;
  std::optional<LoadedCheckpoint> found =
      newest ? find_newest(output, workers, warnings, check)
             : read_state(named_checkpoint(config.run, workers, warnings, check),
                          CheckpointFile::Content::everything);
  std::error_code ignored;
  if (std::filesystem::is_directory(config.run.resume, ignored)) found->good_parts = true;
  if (!newest) warn_of_later(output, found->state.step, warnings);
  if (found->state.inference_only)
    throw UserError(cat(found->path,
                        " was made by `flotilla export` and cannot be resumed: give it as "
                        "model.initial_weights, or resume from a checkpoint"));
  check_differences(*found, config);
  return found;
}

}  // namespace

void refusing_unreadable(const std::function<void()>& read) {
  try {
    read();
  } catch (const UnreadableFile& error) {
    throw UserError(
        cat(error.what(), "; nothing was changed: make it readable, or move it away to use an older one"));
  }
}

std::string checkpoint_file_at(const std::string& path, std::vector<std::string>& warnings, int workers,
                               const CheckParts& check) {
  return absolute(checkpoint_at(
      path, [&](const std::string& text) { warnings.push_back(text); }, workers, check));
}

std::vector<std::string> row_files_of(const LoadedCheckpoint& checkpoint) {
  std::vector<std::string> files;
  for (const CheckpointPart& part : checkpoint.state.server_parts) {
    const std::string damage = checkpoint.good_parts ? "" : part_damage(checkpoint.path, part);
    if (!damage.empty())
      throw UserError(cat("cannot use ", checkpoint.path, ": ", damage, "; name an older checkpoint"));
    files.push_back(part_file(checkpoint.path, part));
  }
  if (files.empty() && !RowFileReader(checkpoint.path).tables().empty()) files.push_back(checkpoint.path);
  return files;
}

LoadedCheckpoint load_checkpoint_everywhere(const std::string& path, bool best,
                                            const mpi::Communicator& world,
                                            std::vector<std::string>& warnings) {
  return *read_on_root(world, [&]() -> std::optional<LoadedCheckpoint> {
    const std::string file = best ? absolute(best_checkpoint_of(path)) : checkpoint_file_at(path, warnings);
    if (const std::string note = better_checkpoint_note(path, file); !note.empty()) warnings.push_back(note);
    return read_state(file, CheckpointFile::Content::weights);
  });
}

std::optional<LoadedCheckpoint> find_beginning(const Config& config, const mpi::Communicator& world,
                                               mpi::Watchdog& watchdog, std::vector<std::string>& warnings) {
  PartChecks checks(world, watchdog);
  std::optional<LoadedCheckpoint> found;
  std::exception_ptr failed;
  if (world.is_root()) {
    const mpi::CpuProgressScope working(watchdog, "looking for a checkpoint");
    try {
      found = choose_beginning(config, world.size(), warnings,
                               [&](const auto& checkpoint, const auto& parts, const auto&) {
                                 return checks.check(checkpoint, parts);
                               });
    } catch (const std::exception&) {
      failed = std::current_exception();
    }
    checks.end();
  } else {
    checks.take_part();
  }
  return read_on_root(world, [&] {
    if (failed) std::rethrow_exception(failed);
    return found;
  });
}

}  // namespace flotilla
