// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "src/job/stop_request.hpp"

// The tests run in processes of their own, because blocked and ignored signals and the request belong to a
// process.

namespace flotilla {
namespace {

/// Ends this process with 0 where the signal asks for a stop.
[[noreturn]] void expect_request(int signal) {
  const StopListener listener;
  kill(getpid(), signal);
  while (stop_signal() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  _exit(stop_signal() == signal ? 0 : 1);
}

/// Ends this process with 0 where the signal, ignored at the start, stays so.
[[noreturn]] void expect_ignored(int signal) {
  ::signal(signal, SIG_IGN);
  const StopListener listener;
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  _exit(sigismember(&blocked, signal) == 0 && action.sa_handler == SIG_IGN ? 0 : 1);
}

TEST(StopListener, TakesEachSignalThatEndsAJobAsARequest) {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGXCPU})
    EXPECT_EXIT(expect_request(signal), testing::ExitedWithCode(0), "") << signal;
}

TEST(StopListener, LeavesWhatNohupAndShellsIgnore) {
  for (const int signal : {SIGINT, SIGHUP, SIGXCPU})
    EXPECT_EXIT(expect_ignored(signal), testing::ExitedWithCode(0), "") << signal;
}

}  // namespace
}  // namespace flotilla
