// SPDX-License-Identifier: Apache-2.0
#include "src/data/data_file.hpp"

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/keys.hpp"
#include "src/files/gzip_reader.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

const char* remedy(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR: return "check the path (paths in a deck are relative to the deck, in a list to its root)";
    case EISDIR: return "name a file in it";
    case EACCES:
    case EPERM: return "give yourself the right to read it (chmod, or the group it belongs to)";
    case EMFILE:
    case ENFILE: return "raise the limit of open files (ulimit -n)";
    case EIO: return "check the disk or the network file system that it lies on";
    default: return "check that it can be read on this host";
  }
}

}  // namespace

File open_data_file(const std::string& path) {
  return File::open(path, remedy);
}

File inflated_samples(const File& compressed) {
  std::int64_t trailing = 0;
  File copy = inflated_copy(compressed, trailing);
  warn_of_trailing_bytes(compressed.name(), trailing);
  return copy;
}

void warn_of_trailing_bytes(const std::string& path, std::int64_t bytes) {
  if (bytes > 0)
    print_error_line(cat("flotilla: warning: ", path, ": the ", bytes, bytes == 1 ? " byte" : " bytes",
                         " behind its gzip data are not read"));
}

void check_data_files(const Config& config, bool validation_only) {
  std::vector<std::string> mistakes;
  for (const config::Key& key : config::all_keys()) {
    const bool is_read =
        key.path.starts_with("data.validation.") || (key.path.starts_with("data.train.") && !validation_only);
    if (!is_read || key.name() == "root" || key.path_role != config::PathRole::input ||
        !is_active(key, config))
      continue;
    const auto path = std::get<std::string>(key.field.read(config));
    std::error_code ignored;
    const bool is_list = key.name() == "path";
    const bool is_pattern = is_list && path.find_first_of("*?[{") != std::string::npos;
    if (path.empty() || is_pattern || (is_list && std::filesystem::is_directory(path, ignored))) continue;
    try {
      open_data_file(path);
    } catch (const UserError& error) {
      mistakes.push_back(cat(key.path, ": ", error.what()));
    }
  }
  if (mistakes.empty()) return;
  if (mistakes.size() == 1) throw UserError(mistakes.front());
  std::string text = cat(mistakes.size(), " files of data cannot be read:");
  for (const std::string& mistake : mistakes) text += "\n  " + mistake;
  throw UserError(text);
}

}  // namespace flotilla
