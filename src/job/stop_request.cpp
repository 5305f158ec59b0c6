// SPDX-License-Identifier: Apache-2.0
#include "src/job/stop_request.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

/// A program that signals a process and its group at once, such as timeout(1), sends one request twice.
constexpr std::int64_t one_request_ns = 200'000'000;

std::atomic<int> received{0};

/// Ends the process by SIGINT, as if it had never been blocked.
void end_by_interrupt() {
  print_error_line("flotilla: signal 2 received again: leaving at once, without saving");
  std::signal(SIGINT, SIG_DFL);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  raise(SIGINT);
}

/// Waits for signals until `wake` becomes readable.
void listen(int signals, int wake) {
  std::int64_t first_interrupt_ns = 0;
  std::array<pollfd, 2> either{
      {{.fd = signals, .events = POLLIN, .revents = 0}, {.fd = wake, .events = POLLIN, .revents = 0}}};
  for (;;) {
    if (poll(either.data(), either.size(), -1) < 0 && errno != EINTR) return;
    if (either[1].revents != 0) return;
    signalfd_siginfo signal{};
    if (either[0].revents == 0 ||
        read(signals, &signal, sizeof(signal)) != static_cast<ssize_t>(sizeof(signal)))
      continue;
    received.store(static_cast<int>(signal.ssi_signo), std::memory_order_relaxed);
    if (signal.ssi_signo != SIGINT) continue;
    const std::int64_t now_ns = trace::now_ns();
    if (first_interrupt_ns == 0) first_interrupt_ns = now_ns;
    if (now_ns - first_interrupt_ns > one_request_ns) end_by_interrupt();
  }
}

/// A shell without job control starts background processes with SIGINT ignored, nohup starts what it starts
/// with SIGHUP ignored: these are not for them.
bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

StopListener::StopListener() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGUSR1);
  sigaddset(&stop, SIGTERM);
  for (const int signal : {SIGINT, SIGHUP, SIGXCPU})
    if (!is_ignored(signal)) sigaddset(&stop, signal);
  if (const int error = pthread_sigmask(SIG_BLOCK, &stop, nullptr); error != 0)
    throw LibraryError("pthread_sigmask", std::strerror(error));
  signals_ = signalfd(-1, &stop, SFD_CLOEXEC);
  if (signals_ < 0) throw LibraryError("signalfd", std::strerror(errno));
  wake_ = eventfd(0, EFD_CLOEXEC);
  if (wake_ < 0) throw LibraryError("eventfd", std::strerror(errno));
  thread_ = std::jthread([signals = signals_, wake = wake_] { listen(signals, wake); });
}

StopListener::~StopListener() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));  // cannot fail on a new eventfd
  thread_.join();
  close(wake_);
  close(signals_);
}

int stop_signal() {
  return received.load(std::memory_order_relaxed);
}

}  // namespace flotilla
