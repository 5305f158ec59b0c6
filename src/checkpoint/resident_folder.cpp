// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/resident_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/checkpoint/write_checkpoint.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/checksum.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/files/run_lock.hpp"

namespace flotilla {

namespace fs = std::filesystem;

namespace {

std::string record_path(const std::string& run) {
  return run + "/resident";
}

/// The beginning of the names of this user's folders.
std::string folder_prefix() {
  return cat("flotilla-", ::getuid(), "-");
}

/// The checkpoints in a run's folder by step.
std::map<std::int64_t, std::string> run_checkpoints(const std::string& run) {
  const std::string folder = run + "/checkpoints";
  return is_there(folder) ? checkpoints_in(folder) : std::map<std::int64_t, std::string>();
}

/// The path of the run, in a file next to the checkpoints.
constexpr const char* run_name = "/run";

/// A checkpoint or a part of one under another name, verified.
void copy_checkpoint(const std::string& from, const std::string& to) {
  CheckpointFile source(from, CheckpointFile::Content::everything);
  NewFile copy(to, source.tensors());
  for (std::size_t i = 0; i < source.tensors().size(); ++i) copy.append(i, source.bytes(i));
  copy.complete(&source.state());
  copy.give_name();
}

/// @param checkpoint where its parts are looked for, as those of this file
ResidentState state_of(const std::string& file, const std::string& checkpoint) {
  const CheckpointFile content(file, CheckpointFile::Content::everything);
  ResidentState state{
      .file = file, .step = content.state().step, .checksum = content.checksum(), .missing = {}};
  for (const CheckpointPart& part : content.state().parts)
    if (state.missing.empty()) state.missing = part_damage(checkpoint, part);
  return state;
}

constexpr std::time_t forgotten_after_s = 24 * 60 * 60;

}  // namespace

std::string ResidentRecord::new_id() {
  std::random_device random;
  return hexadecimal((std::uint64_t{random()} << 32) | random());
}

std::optional<ResidentRecord> ResidentRecord::read(const std::string& run) {
  const std::string path = record_path(run);
  if (!is_there(path)) return std::nullopt;
  try {
    const nlohmann::json json = nlohmann::json::parse(File::open(path).text());
    // The id becomes the name of a folder that is removed in the end.
    if (from_hexadecimal(json.at("id").get<std::string>()))
      return ResidentRecord{.id = json.at("id").get<std::string>(),
                            .follows = json.at("follows").get<std::int64_t>(),
                            .hosts = json.at("hosts").get<std::vector<std::string>>()};
  } catch (const nlohmann::json::exception&) {
    // The error below names the file.
  }
  throw UserError(cat("'", path,
                      "' is not what a training writes there; remove it to go on without the state that "
                      "hosts keep in memory"));
}

void ResidentRecord::write(const std::string& run) const {
  const nlohmann::json json{{"id", id}, {"follows", follows}, {"hosts", hosts}};
  write_text_file_atomically(record_path(run), json.dump() + "\n");
}

void ResidentRecord::remove(const std::string& run) {
  ::unlink(record_path(run).c_str());
}

ResidentFolder::ResidentFolder(const std::string& id) : path_(cat(memory, "/", folder_prefix(), id)) {}

void ResidentFolder::make(const std::string& run) const {
  if (::mkdir(path_.c_str(), 0700) != 0) fail_to_write(path_, errno, nullptr, "make");
  write_text_file_atomically(path_ + run_name, run);
}

bool ResidentFolder::is_there() const {
  struct stat status {};
  return ::lstat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::getuid();
}

std::unique_ptr<RunLock> ResidentFolder::take(std::vector<std::string>& lines) const {
  if (!is_there()) return nullptr;
  try {
    return std::make_unique<RunLock>(path_, RunLock::patience_with_ending_s);
  } catch (const UserError&) {
    lines.push_back(cat("the state in ", path_, " was left alone: ", lock_holder(path_).value_or("a process"),
                        " has it"));
    return nullptr;
  }
}

void ResidentFolder::save_parts(const std::string& run) const {
  if (!is_there()) return;
  const auto checkpoints = run_checkpoints(run);
  const CheckpointFolder folder(run + "/checkpoints");
  for (const fs::directory_entry& parts : fs::directory_iterator(path_)) {
    if (parts.path().extension() != ".parts") continue;
    const auto step = step_of_name(fs::path(parts.path()).replace_extension(".h5").filename().string());
    if (!step || (!checkpoints.empty() && checkpoints.rbegin()->first >= *step)) continue;
    folder.make_parts(*step);
    for (const fs::directory_entry& part : fs::directory_iterator(parts.path())) {
      const std::string name = part.path().filename().string();
      if (!is_part_name(name) || !first_damage(hdf5::read_index(part.path().string())).empty()) continue;
      copy_checkpoint(part.path().string(), part_file(folder.path_of(*step), {.name = name}));
    }
  }
}

std::vector<ResidentState> ResidentFolder::states(const std::string& run,
                                                  std::vector<std::string>& damage) const {
  std::vector<ResidentState> states;
  if (!is_there()) return states;
  const auto files = checkpoints_in(path_);
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    try {
      if (std::string problem = first_damage(hdf5::read_index(file->second)); !problem.empty())
        throw UserError(problem);
      states.push_back(state_of(file->second, CheckpointFolder(run + "/checkpoints").path_of(file->first)));
    } catch (const UserError& error) {
      damage.push_back(cat("'", file->second, "' is damaged and was passed over: ", error.what()));
    }
  }
  return states;
}

void ResidentFolder::remove() const {
  std::error_code ignored;  // What is left is removed at the next start on this host (remove_abandoned)
  if (is_there()) fs::remove_all(path_, ignored);
}

std::vector<std::string> ResidentFolder::remove_abandoned() {
  std::vector<std::string> lines;
  std::error_code error;
  std::vector<std::string> ids;
  for (fs::directory_iterator entry(memory, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (const std::string name = entry->path().filename().string(); name.starts_with(folder_prefix()))
      ids.push_back(name.substr(folder_prefix().size()));
  std::ranges::sort(ids);
  for (const std::string& id : ids) {
    const ResidentFolder folder(id);
    try {
      const std::string reason = folder.why_abandoned(id);
      if (reason.empty()) continue;
      folder.remove();
      lines.push_back(cat("removed ", folder.path(), ", a state in memory: ", reason));
    } catch (const UserError&) {
      // The run that a folder belongs to cannot be found out, so the folder stays.
    }
  }
  return lines;
}

std::string ResidentFolder::why_abandoned(const std::string& id) const {
  if (!is_there() || lock_holder(path_) != "") return {};
  const std::string path = path_ + run_name;
  const std::string run = flotilla::is_there(path) ? File::open(path).text() : "";
  if (!run.empty() &&
      flotilla::is_there(folder_of(run))) {  // otherwise the run may belong to another container
    const auto record = ResidentRecord::read(run);
    if (record && record->id == id) return {};
    return cat(run, record ? " was started again since" : " has ended or is gone");
  }
  struct stat status {};
  const bool old =
      ::stat(path_.c_str(), &status) == 0 && std::time(nullptr) - status.st_mtime > forgotten_after_s;
  return old ? cat("no start of ", run.empty() ? "its run" : run, " has used it for a day") : "";
}

std::string why_not_resident(const std::string& run, const ResidentRecord& record, std::int64_t step) {
  const auto files = run_checkpoints(run);
  if (!files.empty() && files.rbegin()->first >= step)
    return cat("the run has a checkpoint of step ", files.rbegin()->first);
  if (record.follows >= 0 && !files.contains(record.follows))
    return cat("the checkpoint of step ", record.follows, " that it followed was removed");
  return {};
}

std::optional<ResidentState> state_of_step(const std::string& run, std::int64_t step) {
  const auto files = run_checkpoints(run);
  const auto same = files.find(step);
  return same == files.end() ? std::nullopt : std::optional(state_of(same->second, same->second));
}

std::string save_resident_state(const ResidentState& state, const std::string& run) {
  const CheckpointFolder folder(run + "/checkpoints");
  folder.make();
  const std::string path = folder.path_of(state.step);
  copy_checkpoint(state.file, path);
  return path;
}

}  // namespace flotilla
