// SPDX-License-Identifier: Apache-2.0
#include "src/files/files.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr const char* unfinished_ending = ".partial";

/// Makes what SIGPIPE would tell visible as EPIPE only, for this thread and this scope.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    if (raised_ && !was_pending_) {
      const timespec now{};
      while (sigtimedwait(&pipe_, nullptr, &now) == -1 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  void raised() { raised_ = true; }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
  bool raised_ = false;
};

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// A device or a pipe, /dev/stdout for example: a rename would replace it for everybody.
bool is_stream(const std::filesystem::file_status& status) {
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

void write_into(const std::string& path, std::string_view text) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const int error = descriptor < 0 ? errno : write_fully(descriptor, text);
  if (descriptor >= 0) close(descriptor);
  if (error != 0) throw UserError(cat("cannot write ", path, ": ", system_message(error)));
}

/// Makes a rename in `folder` last. Returns 0 or the errno.
int sync_folder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  // Some file systems cannot do this for folders and say so; they order renames themselves.
  const int error = fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
  close(descriptor);
  return error;
}

}  // namespace

int write_fully(int descriptor, std::string_view text) noexcept {
  NoPipeSignal guard;
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      const int error = errno;
      if (error == EPIPE) guard.raised();
      return error;
    }
  }
  return 0;
}

std::string system_message(int error) {
  return std::generic_category().message(error);
}

bool is_there(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return true;
  if (errno == ENOENT) return false;
  throw UserError(cat("cannot tell whether ", path, " is there: ", system_message(errno),
                      "; fix this, or name another path"));
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
    // One that may be entered but not read cannot be synced.
    if (const int reason = sync_folder(path); reason != 0 && reason != EACCES) return reason;
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

void remove_unfinished(const std::string& path) {
  const std::string begin = std::filesystem::path(path).filename().string() + '.';
  std::error_code error;
  std::vector<std::filesystem::path> unfinished;
  std::filesystem::directory_iterator entry(folder_of(path), error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path().filename().string().starts_with(begin) &&
        entry->path().extension() == unfinished_ending)
      unfinished.push_back(entry->path());
  for (const std::filesystem::path& file : unfinished) unlink(file.c_str());
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  if (const int error = make_folders(folder_of(path_)); error != 0) fail("making its folder", error);
  // Processes that write the same file at the same moment must not share the temporary one.
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  temporary_ = cat(path_, ".", getpid(), "-", now, unfinished_ending);
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("open", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::append(std::string_view text) {
  if (const int error = write_fully(descriptor_, text); error != 0) fail("write", error);
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail("fsync", errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) fail("close", errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  temporary_.clear();
  if (const int error = sync_folder(folder_of(path_)); error != 0) fail("fsync of its folder", error);
}

void AtomicFile::fail(const char* call, int error) const {
  throw UserError(cat("cannot write ", path_, ": ", system_message(error), " (", call, ")"));
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
