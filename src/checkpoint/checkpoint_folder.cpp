// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <new>
#include <optional>
#include <set>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/file_index.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/data/data_file.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace fs = std::filesystem;

namespace {

/// The number that `text` begins with, which is cut off. Nothing if it begins with no digit.
std::optional<std::int64_t> take_number(std::string_view& text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

/// 400 of "step-00000400.h5", `begin` being "step-" and `end` ".h5", with the rest after it.
std::optional<std::int64_t> take_number(std::string_view& name, std::string_view begin,
                                        std::string_view end) {
  if (!name.starts_with(begin)) return std::nullopt;
  name.remove_prefix(begin.size());
  const auto number = take_number(name);
  if (!number || !name.starts_with(end)) return std::nullopt;
  name.remove_prefix(end.size());
  return number;
}

std::optional<std::int64_t> take_step(std::string_view& name) {
  return take_number(name, "step-", ".h5");
}

/// The suffix of a file's name while it is being written: ".tmp-1234-node7". (Earlier versions: ".tmp-1234".)
bool is_temporary_ending(std::string_view name) {
  return take_number(name, ".tmp-", "") && (name.empty() || name.front() == '-');
}

bool is_unfinished(std::string_view name) {
  return take_step(name) && is_temporary_ending(name);
}

/// Whether a name begins as that of a part, which is cut off.
bool take_part(std::string_view& name) {
  return take_number(name, "worker-", ".h5") || take_number(name, "server-", ".h5");
}

bool is_part_or_unfinished(std::string_view name) {
  return take_part(name) && (name.empty() || is_temporary_ending(name));
}

bool is_unfinished_part(std::string_view name) {
  return take_part(name) && is_temporary_ending(name);
}

/// Removes a file that need not be there. @returns why it is still there; empty: it is not
std::string remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return cat("cannot remove '", path, "': ", system_message(errno));
}

std::string padded(std::int64_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < width ? width - digits.size() : 0, '0') + digits;
}

/// "step-00000400.h5" → "step-00000400.parts".
std::string parts_folder(const std::string& checkpoint) {
  return fs::path(checkpoint).replace_extension(".parts").string();
}

/// The file that a link leads to: a checkpoint's parts lie next to it, not next to the link.
std::string behind_link(const std::string& path) {
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::canonical(path, error);
  return error ? path : target.string();
}

std::vector<fs::path> files_in(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) files.push_back(entry->path());
  if (error) throw UserError(cat("cannot read the folder '", folder, "': ", error.message()));
  return files;
}

/// Removes the files of such names from a folder that need not be there. @returns why the first of those that
/// are left is still there; empty: none is
std::string remove_files(const fs::path& folder, bool (*has_name)(std::string_view)) {
  std::string failure;
  std::error_code error;
  fs::directory_iterator file(folder, error);
  for (; !error && file != fs::directory_iterator(); file.increment(error)) {
    if (!has_name(file->path().filename().string())) continue;
    const std::string reason = remove_file(file->path().string());
    if (failure.empty()) failure = reason;
  }
  if (error && error != std::errc::no_such_file_or_directory && failure.empty())
    failure = cat("cannot read the folder '", folder.string(), "': ", error.message());
  return failure;
}

constexpr int any_number = 0;
constexpr const char* best_name = "best.h5";

/// The damage of a checkpoint or its servers' parts; empty: none. The workers' parts are checked only if
/// their number is `workers`.
/// @param moved called at every progress of the disk. @throws NewerSchema, UnreadableFile, and what `check`
/// does
std::string damage_of(const std::string& path, int workers, const std::function<void()>& moved,
                      const CheckParts& check) {
  std::vector<CheckpointPart> parts;
  try {
    const FileIndex index = hdf5::read_index(path);
    if (!index.has_state) return "it has no training state";
    if (std::string damage = first_damage(index, moved); !damage.empty()) return damage;
    parts = index.state.server_parts;
    const std::vector<CheckpointPart>& own = index.state.parts;
    if (workers == any_number || own.size() == static_cast<std::size_t>(workers))
      parts.insert(parts.end(), own.begin(), own.end());
  } catch (const NewerSchema&) {
    throw;
  } catch (const UnreadableFile&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw UnreadableFile(path, system_message(ENOMEM));
  } catch (const UserError& error) {
    return error.what();
  }
  return check(path, parts, moved);
}

/// Step of the checkpoint that the link leads to; −1: there is no such link.
std::int64_t linked_step(const std::string& link) {
  std::error_code error;  // mostly that there is none
  return step_of_name(fs::read_symlink(link, error).string()).value_or(-1);
}

/// "…/best.h5" of a run's folder or of its checkpoints; empty: there is none.
std::string best_link_in(const std::string& folder) {
  for (const char* const below : {"checkpoints/best.h5", best_name})
    if (std::string link = (fs::path(folder) / below).string(); is_there(link)) return link;
  return {};
}

}  // namespace

void CheckpointFolder::make() const {
  make_output_folder(folder_);
}

void CheckpointFolder::make_parts(std::int64_t step) const {
  make_output_folder(parts_folder(path_of(step)));
}

std::string CheckpointFolder::file_name(std::int64_t step) {
  return cat("step-", padded(step, 8), ".h5");
}

std::string CheckpointFolder::path_of(std::int64_t step) const {
  return (fs::path(folder_) / file_name(step)).string();
}

std::string CheckpointFolder::part_path(std::int64_t step, int worker) const {
  return cat(parts_folder(path_of(step)), "/worker-", padded(worker, 4), ".h5");
}

std::string CheckpointFolder::server_part_path(std::int64_t step, int server) const {
  return cat(parts_folder(path_of(step)), "/server-", padded(server, 4), ".h5");
}

void CheckpointFolder::remove_unfinished() const {
  for (const fs::path& file : files_in(folder_)) {
    const std::string name = file.filename().string();
    const std::size_t ending = name.starts_with("best") ? name.find(".h5") : name.npos;
    const std::string_view end_of_best = ending == name.npos ? "" : std::string_view(name).substr(ending + 3);
    if (is_unfinished(name) || is_temporary_ending(end_of_best)) ::unlink(file.c_str());
    std::string_view rest = name;
    const auto step = take_number(rest, "step-", ".parts");
    if (!step || !rest.empty()) continue;
    if (is_there(path_of(*step))) {
      remove_files(file, is_unfinished_part);
    } else {
      remove_parts(*step);
    }
  }
}

std::string CheckpointFolder::remove_parts(std::int64_t step) const {
  const std::string parts = parts_folder(path_of(step));
  std::string failure = remove_files(parts, is_part_or_unfinished);
  ::rmdir(parts.c_str());  // stays if it holds files of others
  return failure;
}

void CheckpointFolder::remove_orphaned_parts(std::int64_t step) const {
  std::error_code error;
  if (fs::status(path_of(step), error).type() == fs::file_type::not_found) remove_parts(step);
}

bool CheckpointFolder::good(std::int64_t step, const std::string& path, const std::function<void()>& moved) {
  if (const auto known = good_.find(step); known != good_.end()) return known->second;
  bool is_good = false;
  try {
    is_good = damage_of(path, any_number, moved, damage_of_parts).empty();
  } catch (const NewerSchema&) {
    // This version cannot check a newer schema, so it must not remove the file.
  } catch (const UnreadableFile&) {
    // Nothing is known of it.
  }
  return good_[step] = is_good;
}

std::string CheckpointFolder::best_link(std::size_t place) const {
  return (fs::path(folder_) / (place == 0 ? best_name : cat("best-", place + 1, ".h5"))).string();
}

void CheckpointFolder::mark_best(const std::vector<std::int64_t>& steps) const {
  for (std::size_t place = 0; place < steps.size(); ++place) {
    const std::string link = best_link(place);
    if (linked_step(link) == steps[place] || !is_there(path_of(steps[place]))) continue;
    const std::string temporary = cat(link, ".tmp-", ::getpid());
    ::unlink(temporary.c_str());
    if (::symlink(file_name(steps[place]).c_str(), temporary.c_str()) != 0 ||
        ::rename(temporary.c_str(), link.c_str()) != 0)
      throw UserError(
          cat("cannot make the link '", link, "' to ", file_name(steps[place]), ": ", system_message(errno)));
    sync_folder(folder_);
  }
  for (std::size_t place = steps.size(); linked_step(best_link(place)) >= 0; ++place)
    ::unlink(best_link(place).c_str());
}

void CheckpointFolder::saved(std::int64_t step, std::int64_t keep, const std::function<void()>& moved) {
  verified(step);
  std::set<std::int64_t> best;
  for (std::size_t place = 0; linked_step(best_link(place)) >= 0; ++place)
    best.insert(linked_step(best_link(place)));
  std::int64_t kept = 1;
  std::string failure;
  const auto files = checkpoints_in(folder_);
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (file->first >= step || best.contains(file->first) || !good(file->first, file->second, moved))
      continue;
    if (kept < keep) {
      ++kept;
      continue;
    }
    std::string reason = remove_file(file->second);  // first, so that it never names removed parts
    if (reason.empty()) reason = remove_parts(file->first);
    if (failure.empty()) failure = reason;
  }
  if (!failure.empty()) throw UserError(failure);
}

std::string best_checkpoint_of(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw UserError(cat("--best takes the best checkpoint of a run's folder, and '", folder, "' is ",
                        fs::exists(folder, error) ? "a file: leave --best out" : "not there"));
  const std::string link = best_link_in(folder);
  if (link.empty())
    throw UserError(
        cat("the folder '", folder,
            "' keeps no best checkpoint (checkpoints/best.h5): train with checkpoint.best, or leave "
            "--best out"));
  return fs::canonical(link).string();
}

std::string better_checkpoint_note(const std::string& folder, const std::string& taken) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return {};
  const std::string link = best_link_in(folder);
  if (link.empty() || fs::equivalent(link, taken, error)) return {};
  return cat("the newest checkpoint is taken; the one of the best validation is ", link,
             " (--best takes it)");
}

bool is_part_name(std::string_view name) {
  return take_part(name) && name.empty();
}

std::string part_file(const std::string& checkpoint, const CheckpointPart& part) {
  return (fs::path(parts_folder(checkpoint)) / part.name).string();
}

void require_written(const std::string& path, const CheckpointPart& written) {
  const FileIndex index = hdf5::read_index(path);
  std::string problem = index_problem(index);
  if (problem.empty() && (index.bytes != written.bytes || index.checksum != written.checksum))
    problem = "it is another file";
  if (!problem.empty())
    throw UserError(cat("'", path, "' is not what was written under this name: ", problem));
}

std::string part_damage(const std::string& checkpoint, const CheckpointPart& part,
                        const std::function<void()>& moved) {
  const std::string name = cat("its part '", part.name, "' ");
  try {
    const FileIndex index = hdf5::read_index(part_file(checkpoint, part));
    if (const std::string damage = first_damage(index, moved); !damage.empty())
      return cat(name, "is damaged: ", damage);
    return index.checksum == part.checksum ? "" : name + "was written by another save";
  } catch (const UnreadableFile&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw UnreadableFile(part_file(checkpoint, part), system_message(ENOMEM));
  } catch (const UserError& error) {
    return cat(name, "cannot be read: ", error.what());
  }
}

std::optional<std::int64_t> step_of_name(std::string_view name) {
  const auto step = take_step(name);
  return step && name.empty() ? step : std::nullopt;
}

std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder) {
  std::map<std::int64_t, std::string> files;
  for (const fs::path& file : files_in(folder)) {
    if (const auto step = step_of_name(file.filename().string())) files[*step] = file.string();
  }
  return files;
}

std::string damage_of_parts(const std::string& checkpoint, const std::vector<CheckpointPart>& parts,
                            const std::function<void()>& moved) {
  for (const CheckpointPart& part : parts)
    if (std::string damage = part_damage(checkpoint, part, moved); !damage.empty()) return damage;
  return {};
}

std::optional<std::string> find_newest_good(const std::string& folder,
                                            const std::function<void(const std::string&)>& on_damaged,
                                            int workers, const CheckParts& check) {
  const std::string inner = folder + "/checkpoints";
  if (!is_there(folder)) return std::nullopt;
  const auto files = checkpoints_in(is_there(inner) ? inner : folder);
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    const std::string damage = damage_of(
        file->second, workers, [] {}, check);
    if (damage.empty()) return file->second;
    on_damaged(cat("checkpoint '", file->second, "' is damaged and was passed over: ", damage));
  }
  return std::nullopt;
}

std::string checkpoint_at(const std::string& file_or_folder,
                          const std::function<void(const std::string&)>& on_damaged, int workers,
                          const CheckParts& check) {
  std::error_code error;
  const fs::file_status status = fs::status(file_or_folder, error);
  if (!fs::is_directory(status)) {
    // Errors of opening another kind of file are reported where it is opened.
    if (status.type() != fs::file_type::not_found) return behind_link(file_or_folder);
    throw UserError(
        cat("cannot open '", file_or_folder,
            "': No such file or directory; give a checkpoint, an exported model or a run's folder"));
  }
  std::string newest_damage;
  const auto note = [&](const std::string& text) {
    if (newest_damage.empty()) newest_damage = text;
    on_damaged(text);
  };
  if (auto newest = find_newest_good(file_or_folder, note, workers, check)) return *newest;
  const FileKind kind = kind_of_path(file_or_folder);
  if (newest_damage.empty() && !is_there(file_or_folder + "/checkpoints") &&
      kind.advice.starts_with("data.kind"))
    throw UserError(cat("'", file_or_folder, "' ",
                        wrong_kind_text(kind, "a run's folder or one of checkpoints (step-*.h5)")));
  throw UserError(cat("the folder '", file_or_folder,
                      "' holds no good checkpoint (step-*.h5, there or in checkpoints/)",
                      newest_damage.empty() ? "" : cat(" (the newest: ", newest_damage, ")"),
                      "; name another folder or a file"));
}

}  // namespace flotilla
