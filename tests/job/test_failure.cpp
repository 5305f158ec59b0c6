// SPDX-License-Identifier: Apache-2.0
#include "src/job/failure.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "kernels/error.hpp"

namespace flotilla {
namespace {

/// A pipe in place of stderr, which holds 4 KiB until they are read.
class StderrPipe {
 public:
  StderrPipe() {
    if (pipe(ends_.data()) != 0 || fcntl(ends_[1], F_SETPIPE_SZ, 4096) < 0) _exit(99);
    dup2(ends_[1], STDERR_FILENO);
  }
  void wait_for_text() const {
    pollfd end{.fd = ends_[0], .events = POLLIN, .revents = 0};
    poll(&end, 1, -1);
  }
  /// Reads until the process ends.
  [[noreturn]] void read_all() const {
    for (std::array<char, 4096> text{};;) static_cast<void>(!read(ends_[0], text.data(), text.size()));
  }

 private:
  std::array<int, 2> ends_{};
};

/// The first thread's line is longer than the pipe, so that it still writes when the other one fails.
void fail_in_two_threads() {
  const StderrPipe pipe;
  FailureHandler failure(0, 1, "node7");
  std::thread([&] { failure.end_job(std::string(100'000, 'x'), exit_user_error); }).detach();
  pipe.wait_for_text();
  std::thread([&] { failure.end_job("because of the first", exit_library_error); }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  pipe.read_all();
}

TEST(FailureHandlerDeathTest, EndsTheJobWhenTheFirstOfTwoThreadsHasReported) {
  EXPECT_EXIT(fail_in_two_threads(), testing::ExitedWithCode(exit_user_error), "");
}

}  // namespace
}  // namespace flotilla
