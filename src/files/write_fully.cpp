// SPDX-License-Identifier: Apache-2.0
#include "src/files/write_fully.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <ctime>

namespace flotilla {

namespace {

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

}  // namespace

int write_fully(int descriptor, std::string_view text) noexcept {
  NoPipeSignal guard;
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
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

}  // namespace flotilla
