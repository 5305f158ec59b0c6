// SPDX-License-Identifier: Apache-2.0
#include "src/files/atomic_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "src/files/file.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace {

constexpr const char* unfinished_ending = ".partial";

/// Processes that write the same file at the same moment must not share the temporary one.
std::string unfinished_name(const std::string& path) {
  if (const int error = make_folders(folder_of(path)); error != 0)
    fail_to_write(path, error, nullptr, "make the folder of");
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return cat(path, ".", getpid(), "-", now, unfinished_ending);
}

/// A device or a pipe, /dev/stdout for example: a rename would replace it for all its users.
bool is_stream(const std::filesystem::file_status& status) {
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

void write_into(const std::string& path, std::string_view text) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const int error = descriptor < 0 ? errno : write_fully(descriptor, text);
  if (descriptor >= 0) close(descriptor);
  if (error != 0) fail_to_write(path, error);
}

}  // namespace

AtomicFile::AtomicFile(std::string path, Remedy remedy) : AtomicFile(path, unfinished_name(path), remedy) {}

AtomicFile::AtomicFile(std::string path, std::string temporary, Remedy remedy)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      remedy_(remedy),
      file_(File::create(temporary_, path_, remedy)) {}

AtomicFile::~AtomicFile() {
  { const File closed = std::move(file_); }  // network file systems keep what is removed while it is open
  if (!has_name()) unlink(temporary_.c_str());
}

void AtomicFile::append(std::string_view text) {
  file_.append(std::as_bytes(std::span(text)));
}

void AtomicFile::complete() {
  file_.sync();
  file_.close();
}

void AtomicFile::give_name() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno, remedy_);
  temporary_.clear();
}

void AtomicFile::commit() {
  complete();
  give_name();
  sync_folder(folder_of(path_));
}

void remove_unfinished(const std::string& path) {
  remove_unfinished_in(folder_of(path), std::filesystem::path(path).filename().string() + '.');
}

void remove_unfinished_in(const std::string& folder, const std::string& beginning) {
  std::error_code error;
  std::vector<std::filesystem::path> unfinished;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path().filename().string().starts_with(beginning) &&
        entry->path().extension() == unfinished_ending)
      unfinished.push_back(entry->path());
  for (const std::filesystem::path& file : unfinished) unlink(file.c_str());
}

void write_text_file_atomically(const std::string& path, std::string_view text) {
  std::error_code none;
  const std::filesystem::file_status status = std::filesystem::status(path, none);
  if (is_stream(status)) return write_into(path, text);
  AtomicFile file(path);
  file.append(text);
  file.commit();
}

}  // namespace flotilla
