// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/checkpoint/value_reader.hpp"

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

/// 400 of "step-00000400.h5" with the rest after ".h5".
std::optional<std::int64_t> take_step(std::string_view& name) {
  if (!name.starts_with("step-")) return std::nullopt;
  name.remove_prefix(5);
  const auto step = take_number(name);
  if (!step || !name.starts_with(".h5")) return std::nullopt;
  name.remove_prefix(3);
  return step;
}

bool is_unfinished(std::string_view name) {
  if (!take_step(name) || !name.starts_with(".tmp-")) return false;
  name.remove_prefix(5);
  return take_number(name) && name.empty();
}

std::vector<fs::path> files_in(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) files.push_back(entry->path());
  if (error) throw UserError(cat("cannot read the folder '", folder, "': ", error.message()));
  return files;
}

/// What is wrong with a file; empty if it is good. @throws NewerSchema.
std::string damage_of(const std::string& path) {
  try {
    const FileIndex index = hdf5::read_index(path);
    return index.has_state ? first_damage(index) : "it has no training state";
  } catch (const NewerSchema&) {
    throw;
  } catch (const UserError& error) {
    return error.what();
  }
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string folder) : folder_(std::move(folder)) {
  make();
  if (::access(folder_.c_str(), W_OK | X_OK) != 0)
    throw UserError(cat("cannot write checkpoints into '", folder_, "': ", std::strerror(errno)));
}

void CheckpointFolder::make() const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    throw UserError(cat("cannot make the folder '", folder_, "' for checkpoints: ", error.message()));
}

std::string CheckpointFolder::path_of(std::int64_t step) const {
  return (fs::path(folder_) / CheckpointWriter::file_name(step)).string();
}

void CheckpointFolder::remove_unfinished() const {
  for (const fs::path& file : files_in(folder_))
    if (is_unfinished(file.filename().string())) ::unlink(file.c_str());
}

bool CheckpointFolder::good(std::int64_t step, const std::string& path) {
  if (const auto known = good_.find(step); known != good_.end()) return known->second;
  bool is_good = false;
  try {
    is_good = damage_of(path).empty();
  } catch (const NewerSchema&) {
    // Not ours to judge, so not ours to remove.
  }
  return good_[step] = is_good;
}

void CheckpointFolder::saved(std::int64_t step, std::int64_t keep) {
  good_[step] = true;
  std::int64_t kept = 1;
  const auto files = checkpoints_in(folder_);
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    if (file->first >= step || !good(file->first, file->second)) continue;
    if (kept < keep)
      ++kept;
    else
      ::unlink(file->second.c_str());
  }
}

std::map<std::int64_t, std::string> checkpoints_in(const std::string& folder) {
  std::map<std::int64_t, std::string> files;
  for (const fs::path& file : files_in(folder)) {
    const std::string name = file.filename().string();
    std::string_view rest = name;
    if (const auto step = take_step(rest); step && rest.empty()) files[*step] = file.string();
  }
  return files;
}

std::optional<std::string> find_newest_good(const std::string& folder,
                                            const std::function<void(const std::string&)>& on_damaged) {
  const fs::path inner = fs::path(folder) / "checkpoints";
  if (!fs::exists(folder)) return std::nullopt;
  const auto files = checkpoints_in(fs::is_directory(inner) ? inner.string() : folder);
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    const std::string damage = damage_of(file->second);
    if (damage.empty()) return file->second;
    on_damaged(cat("checkpoint '", file->second, "' is damaged and was passed over: ", damage));
  }
  return std::nullopt;
}

std::string checkpoint_at(const std::string& file_or_folder,
                          const std::function<void(const std::string&)>& on_damaged) {
  std::error_code error;
  const fs::file_status status = fs::status(file_or_folder, error);
  if (!fs::is_directory(status)) {
    // What stands in the way of opening another kind of file is told where it is opened.
    if (status.type() != fs::file_type::not_found) return file_or_folder;
    throw UserError(
        cat("cannot open '", file_or_folder,
            "': No such file or directory; give a checkpoint, an exported model or a run's folder"));
  }
  if (auto newest = find_newest_good(file_or_folder, on_damaged)) return *newest;
  throw UserError(
      cat("the folder '", file_or_folder,
          "' holds no good checkpoint (step-*.h5, there or in checkpoints/); name another folder or a file"));
}

}  // namespace flotilla
