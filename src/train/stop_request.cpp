// SPDX-License-Identifier: Apache-2.0
#include "src/train/stop_request.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may only use lock-free atomics");

extern "C" void remember(int signal) {
  received.store(signal, std::memory_order_relaxed);
}

}  // namespace

void listen_for_stop_signals() {
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGUSR1, SIGTERM})
    if (sigaction(signal, &action, nullptr) != 0) throw LibraryError("sigaction", std::strerror(errno));
}

int stop_signal() {
  return received.load(std::memory_order_relaxed);
}

}  // namespace flotilla
