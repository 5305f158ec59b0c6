// SPDX-License-Identifier: Apache-2.0
#include "src/data/staging/stage_plan.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <system_error>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_reader.hpp"
#include "src/files/checksum.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t files_between_beats = 256;

std::string normal(const std::string& path) {
  return fs::path(path).lexically_normal().string();
}

/// The copies lie where the text of the path says. "a/../b" is "b", unless "a" is a link.
std::string normal_file(const std::string& path) {
  std::string text = normal(path);
  std::error_code error;
  if (text != path && fs::exists(path, error) && !fs::equivalent(path, text, error))
    throw UserError(cat(config::printable(path),
                        ": leads through a link and back, which data.stage_to cannot copy; "
                        "write the path without \"..\""));
  return text;
}

void add_source(const DataConfig& data, const DataSourceConfig& source, std::int64_t classes, bool training,
                SourceFiles& originals) {
  const DataReader& reader = reader_of(data.kind);
  require(reader.list_files != nullptr, "no files of data.kind \"", data.kind, "\"");
  const DatasetUse use{.training = training};
  reader.list_files(
      {.data = data, .source = source, .classes = classes == 0 ? any_classes : classes, .use = use},
      originals);
  originals.files.erase("");  // no labels
}

/// False if the file is not there.
bool examine(StagedFile& file) {
  struct stat status {};
  if (::stat(file.path.c_str(), &status) != 0) {
    if (errno == ENOENT) return false;
    throw UserError(cat(config::printable(file.path), ": cannot be examined: ", std::strerror(errno),
                        "; check the path and the right to read it"));
  }
  if (!S_ISREG(status.st_mode))
    throw UserError(cat(config::printable(file.path), ": is not a regular file and cannot be staged"));
  const FileStamp stamp = stamp_of(status);
  file.bytes = stamp.bytes;
  file.changed_ns = stamp.changed_ns;
  return true;
}

std::int64_t number_at(std::string_view& text) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && stop != text.data() + text.size(), "a plan of staging is cut off");
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()) + 1);
  return value;
}

/// Paths may hold any character: their length precedes them.
std::string path_at(std::string_view& text) {
  const auto length = static_cast<std::size_t>(number_at(text));
  require(length < text.size(), "a plan of staging is cut off");
  std::string path(text.substr(0, length));
  text.remove_prefix(length + 1);
  return path;
}

}  // namespace

std::int64_t StagePlan::bytes() const {
  std::int64_t sum = 0;
  for (const StagedFile& file : files) sum += file.bytes;
  return sum;
}

std::string StagePlan::text() const {
  std::string text = cat(files.size(), ' ', folders.size(), '\n');
  for (const StagedFile& file : files)
    text += cat(file.bytes, ' ', file.changed_ns, ' ', file.path.size(), ' ', file.path, '\n');
  for (const std::string& folder : folders) text += cat(folder.size(), ' ', folder, '\n');
  return text;
}

StagePlan StagePlan::of_text(std::string_view text) {
  StagePlan plan;
  plan.files.resize(static_cast<std::size_t>(number_at(text)));
  plan.folders.resize(static_cast<std::size_t>(number_at(text)));
  for (StagedFile& file : plan.files) {
    file.bytes = number_at(text);
    file.changed_ns = number_at(text);
    file.path = path_at(text);
  }
  for (std::string& folder : plan.folders) folder = path_at(text);
  return plan;
}

std::string StagePlan::name() const {
  const std::string all = text() + "private";  // not the folders that earlier versions made, for all to read
  return "flotilla-" + hexadecimal(checksum_of(std::as_bytes(std::span(all))));
}

std::vector<std::string> files_of(const DataConfig& data, const DataSourceConfig& source,
                                  std::int64_t classes) {
  SourceFiles originals;
  add_source(data, source, classes, &source == &data.train, originals);
  originals.files.merge(originals.may_be_missing);
  return {originals.files.begin(), originals.files.end()};
}

StagePlan plan_staging(const DataConfig& data, std::int64_t classes, const std::function<void()>& beat) {
  SourceFiles originals;
  add_source(data, data.train, classes, true, originals);
  beat();
  if (data.validation.given) add_source(data, data.validation, classes, false, originals);
  StagePlan plan;
  std::set<std::string> folders;
  std::set<std::string> needed;
  for (const std::string& folder : originals.folders) folders.insert(normal(folder));
  for (const std::string& path : originals.files) needed.insert(normal_file(path));
  std::set<std::string> all = needed;
  for (const std::string& path : originals.may_be_missing) all.insert(normal_file(path));
  plan.folders.assign(folders.begin(), folders.end());
  plan.left_out = originals.left_out.text();
  for (const std::string& path : all) {
    if (plan.files.size() % files_between_beats == 0) beat();
    StagedFile file{.path = path};
    if (examine(file)) {
      plan.files.push_back(std::move(file));
    } else if (needed.contains(path)) {
      throw UserError(cat(config::printable(path), ": is missing; check the path"));
    }
  }
  return plan;
}

std::string staged_path(const std::string& folder, const std::string& path) {
  return folder.empty() || path.empty() ? path : folder + normal(path);
}

DataConfig staged_data(DataConfig data, const std::string& folder) {
  for (DataSourceConfig* source : {&data.train, &data.validation}) {
    for (std::string* path : {&source->images, &source->labels, &source->path, &source->root})
      *path = staged_path(folder, *path);
    source->staged_below = folder;
  }
  return data;
}

}  // namespace flotilla
