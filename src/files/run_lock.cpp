// SPDX-License-Identifier: Apache-2.0
#include "src/files/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <thread>

#include "kernels/error.hpp"
#include "src/files/file.hpp"

namespace flotilla {

namespace {

/// 0, or why the lock cannot be had: EWOULDBLOCK if another process has it. @param how LOCK_EX or LOCK_SH
int try_lock(int descriptor, int how = LOCK_EX) {
  while (flock(descriptor, how | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

std::string holder(int descriptor) {
  std::array<char, 256> text{};
  const ssize_t length = pread(descriptor, text.data(), text.size(), 0);
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "";
}

/// "process 123 on node7", for the message of a later run.
void sign(int descriptor) {
  if (ftruncate(descriptor, 0) != 0) return;
  write_fully(descriptor, cat("process ", getpid(), " on ", own_host_name()));
}

}  // namespace

RunLock::RunLock(const std::string& folder, double patience_s) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  const std::string path = folder + "/.lock";
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  int error = descriptor_ < 0 ? errno : try_lock(descriptor_);
  while (error == EWOULDBLOCK && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    error = try_lock(descriptor_);
  }
  if (error == 0) sign(descriptor_);
  if (error != 0 && error != EWOULDBLOCK)
    warning_ = cat("cannot lock ", path, " (", system_message(error),
                   "): a second run in this folder would not be noticed, and would spoil the checkpoints");
  if (error != EWOULDBLOCK) return;
  const std::string by = holder(descriptor_);
  close(descriptor_);
  throw UserError(in_use_by_another(folder, by));
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string in_use_by_another(const std::string& folder, const std::string& holder) {
  return cat("run.output ", folder, " is in use by another run", holder.empty() ? "" : " (" + holder + ")",
             ": wait until it ends, or choose another run.output");
}

std::optional<std::string> lock_holder(const std::string& folder) {
  const int descriptor = open((folder + "/.lock").c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return errno == ENOENT ? std::optional("") : std::nullopt;
  const int error = try_lock(descriptor, LOCK_SH);
  std::optional<std::string> found;
  if (error == 0) found = "";
  if (error == EWOULDBLOCK) found = holder(descriptor);
  close(descriptor);
  return found;
}

}  // namespace flotilla
