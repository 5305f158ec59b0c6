// SPDX-License-Identifier: Apache-2.0
#include "src/files/folders.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "src/files/file.hpp"

namespace flotilla {

namespace {

struct FolderSync {
  int error = 0;
  const char* action = "open";  ///< The action that failed
};

FolderSync try_to_sync(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return {errno};
  const int error = fsync(descriptor) != 0 ? errno : 0;
  close(descriptor);
  return {error == EINVAL || error == ENOTSUP ? 0 : error, "write"};
}

}  // namespace

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

bool is_there(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT) return false;
  throw UserError(cat("cannot tell whether ", path, " is there: ", system_message(errno),
                      "; fix this, or name another path"));
}

void sync_folder(const std::string& folder) {
  if (const FolderSync sync = try_to_sync(folder); sync.error != 0)
    fail_to_write(folder, sync.error, nullptr, sync.action);
}

int make_folders(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> around;  // The folders that get a new entry
  for (std::string path = folder; !std::filesystem::exists(path, error) && path != folder_of(path);
       path = folder_of(path))
    around.push_back(folder_of(path));
  std::filesystem::create_directories(folder, error);
  if (error) return error.value();
  for (const std::string& path : around)
    // One that may be written but not read cannot be opened; that is no reason to refuse to work below it.
    if (const FolderSync sync = try_to_sync(path); sync.error != 0 && sync.error != EACCES) return sync.error;
  return 0;
}

void make_output_folder(const std::string& folder, const std::string& key) {
  const std::string remedy = "; set " + key + " to a folder that can be written";
  if (const int error = make_folders(folder); error != 0) {
    throw UserError(cat("output folder ", folder, " cannot be made: ", system_message(error), remedy));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    throw UserError(cat("output folder ", folder, " is not writable: ", system_message(errno), remedy));
  }
}

}  // namespace flotilla
