// SPDX-License-Identifier: Apache-2.0
#include "mpi/watchdog/thread_stack.hpp"

#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

namespace flotilla::mpi {

namespace {

constexpr auto print_limit = std::chrono::milliseconds(500);
constexpr auto look_every = std::chrono::milliseconds(5);
constexpr std::size_t max_frames = 48;

std::atomic<int> printed{0};
struct sigaction action_before {};

/// Runs in the thread whose stack is wanted, which may hold any lock: neither call allocates.
void print_own_stack(int /*signal*/) {
  std::array<void*, max_frames> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
  printed.fetch_add(1);
}

}  // namespace

ThreadStack::ThreadStack() {
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // the first call loads a library, which allocates
  struct sigaction action {};
  action.sa_handler = print_own_stack;
  action.sa_flags = SA_RESTART;
  sigaction(SIGURG, &action, &action_before);
}

ThreadStack::~ThreadStack() {
  sigaction(SIGURG, &action_before, nullptr);
}

void ThreadStack::print(const std::string& head) const {
  std::fprintf(stderr, "%s\n", head.c_str());
  std::fflush(stderr);
  const int before = printed.load();
  if (pthread_kill(thread_, SIGURG) != 0) return;
  const auto end = std::chrono::steady_clock::now() + print_limit;
  while (printed.load() == before && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(look_every);
}

}  // namespace flotilla::mpi
