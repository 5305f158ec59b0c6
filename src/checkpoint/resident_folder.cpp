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
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_file.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/write_file.hpp"
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
std::string prefix() {
  return cat("flotilla-", ::getuid(), "-");
}

/// The checkpoints in a run's folder by step.
std::map<std::int64_t, std::string> run_checkpoints(const std::string& run) {
  const std::string folder = run + "/checkpoints";
  return is_there(folder) ? checkpoints_in(folder) : std::map<std::int64_t, std::string>();
}

/// The path of the run, in a file beside the checkpoints.
constexpr const char* run_name = "/run";

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
    return ResidentRecord{.id = json.at("id").get<std::string>(),
                          .follows = json.at("follows").get<std::int64_t>(),
                          .hosts = json.at("hosts").get<std::vector<std::string>>()};
  } catch (const nlohmann::json::exception&) {
    throw UserError(cat("'", path,
                        "' is not what a training writes there; remove it to go on without the state that "
                        "hosts keep in memory"));
  }
}

void ResidentRecord::write(const std::string& run) const {
  const nlohmann::json json{{"id", id}, {"follows", follows}, {"hosts", hosts}};
  write_text_file_atomically(record_path(run), json.dump() + "\n");
}

void ResidentRecord::remove(const std::string& run) {
  ::unlink(record_path(run).c_str());
}

ResidentFolder::ResidentFolder(const std::string& id) : path_(cat(memory, "/", prefix(), id)) {}

void ResidentFolder::make(const std::string& run) const {
  if (::mkdir(path_.c_str(), 0700) != 0) fail_to_write(path_, errno, nullptr, "make");
  write_text_file_atomically(path_ + run_name, run);
}

bool ResidentFolder::is_there() const {
  struct stat status {};
  return ::lstat(path_.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::getuid();
}

std::optional<std::string> ResidentFolder::newest(std::vector<std::string>& damage) const {
  if (!is_there()) return std::nullopt;
  return find_newest_good(path_, [&](const std::string& text) { damage.push_back(text); });
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
    if (const std::string name = entry->path().filename().string(); name.starts_with(prefix()))
      ids.push_back(name.substr(prefix().size()));
  std::ranges::sort(ids);
  for (const std::string& id : ids) {
    const ResidentFolder folder(id);
    try {
      const std::string reason = folder.why_abandoned(id);
      if (reason.empty()) continue;
      folder.remove();
      lines.push_back(cat("removed ", folder.path(), ", a state in memory: ", reason));
    } catch (const UserError&) {
      // Whose it is cannot be told, so it stays.
    }
  }
  return lines;
}

std::string ResidentFolder::why_abandoned(const std::string& id) const {
  if (!is_there() || lock_holder(path_) != "") return {};
  const std::string path = path_ + run_name;
  const std::string run = flotilla::is_there(path) ? File::open(path).text() : "";
  if (!run.empty() && flotilla::is_there(folder_of(run))) {  // else the run may be another container's
    const auto record = ResidentRecord::read(run);
    if (record && record->id == id) return {};
    return cat(run, record ? " was started again since" : " has ended or is gone");
  }
  struct stat status {};
  const bool old =
      ::stat(path_.c_str(), &status) == 0 && std::time(nullptr) - status.st_mtime > forgotten_after_s;
  return old ? cat("no start of ", run.empty() ? "its run" : run, " has used it for a day") : "";
}

ResidentState resident_state_of(const std::string& file) {
  const CheckpointFile checkpoint(file, CheckpointFile::Content::everything);
  return {.file = file, .step = checkpoint.state().step, .checksum = checkpoint.checksum()};
}

std::string why_not_resident(const std::string& run, const ResidentRecord& record, std::int64_t step) {
  const auto files = run_checkpoints(run);
  if (!files.empty() && files.rbegin()->first >= step)
    return cat("the run has a checkpoint of step ", files.rbegin()->first);
  if (record.follows >= 0 && !files.contains(record.follows))
    return cat("the checkpoint of step ", record.follows, " that it followed was removed");
  return {};
}

std::optional<ResidentState> checkpoint_of_same_step(const std::string& run, const ResidentState& state) {
  const auto files = run_checkpoints(run);
  const auto same = files.find(state.step);
  return same == files.end() ? std::nullopt : std::optional(resident_state_of(same->second));
}

std::string save_resident_state(const ResidentState& state, const std::string& run) {
  CheckpointFile from(state.file, CheckpointFile::Content::everything);
  const CheckpointFolder folder(run + "/checkpoints");
  NewFile to(folder.path_of(state.step), from.tensors());
  for (std::size_t i = 0; i < from.tensors().size(); ++i) to.append(i, from.bytes(i));
  to.complete(&from.state());
  to.give_name();
  return folder.path_of(state.step);
}

}  // namespace flotilla
