// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include "mpi/watchdog/watchdog.hpp"

namespace flotilla::mpi {
namespace {

using std::chrono::milliseconds;

/// Says the sentence and ends this process as a job would be ended.
void say_and_leave(const std::string& sentence) {
  std::cerr << sentence << std::endl;
  _exit(3);
}

std::vector<int> one_rank_missing() {
  return {7};
}

[[noreturn]] void hang() {
  while (true) std::this_thread::sleep_for(milliseconds(20));
}

class WatchdogDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  /// Expects that a process that does `work` ends with this code, having said what the expression matches.
  static void expect_exit(int code, const std::string& says, const std::function<void()>& work) {
    EXPECT_EXIT(work(), testing::ExitedWithCode(code), says);
  }
};

TEST_F(WatchdogDeathTest, EndsAJobThatHangsAndSaysWhereItWas) {
  expect_exit(3, "nothing has moved for 0.1 s .*all-reduce of bucket 3, step 120; not there: rank 7", [] {
    Watchdog watchdog(0.1, say_and_leave);
    const MissingRanks missing(watchdog, one_rank_missing);
    watchdog.beat("all-reduce of bucket", 120, 3);
    hang();
  });
}

TEST_F(WatchdogDeathTest, SaysItBeforeTheFirstStepToo) {
  expect_exit(3, "starting\n", [] {
    Watchdog watchdog(0.1, say_and_leave);
    hang();
  });
}

TEST_F(WatchdogDeathTest, LeavesEvenIfTheEndOfTheJobReturns) {
  expect_exit(3, "", [] {
    Watchdog watchdog(0.1, [](const std::string&) {});
    hang();
  });
}

TEST_F(WatchdogDeathTest, LeavesEvenIfTheEndOfTheJobHangs) {
  expect_exit(3, "", [] {
    Watchdog watchdog(0.1, [](const std::string&) { hang(); });
    hang();
  });
}

TEST_F(WatchdogDeathTest, LeavesWhenAStopTakesTooLong) {
  expect_exit(3, "did not reach the agreed stop within 0.1 s: agreeing, step 5", [] {
    Watchdog watchdog(0, say_and_leave);
    watchdog.set_deadline(0.1);
    while (true) {
      watchdog.beat("agreeing", 5);
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
}

TEST_F(WatchdogDeathTest, EndsAJobThatMovesWhereSomethingFailedBesideIt) {
  expect_exit(3, "NCCL: the network broke; step, step 7", [] {
    Watchdog watchdog(0, say_and_leave);
    const AsyncErrorMonitor failures(watchdog, [looks = 0]() mutable {
      return ++looks < 3 ? std::string() : std::string("NCCL: the network broke");
    });
    while (true) {
      watchdog.beat("step", 7);
      std::this_thread::sleep_for(milliseconds(10));
    }
  });
}

TEST_F(WatchdogDeathTest, StillWatchesWhileAnExceptionIsThrown) {
  expect_exit(3, "", [] {
    try {
      Watchdog watchdog(0.1, [](const std::string&) { _exit(99); });
      throw std::runtime_error("elsewhere");
    } catch (const std::runtime_error&) {
      hang();
    }
  });
}

/// Moves, is stopped by another process for longer than a second, and moves a second more.
void move_around_a_stop(Watchdog& watchdog) {
  auto last = std::chrono::steady_clock::now();
  const pid_t stopped = getpid();
  if (fork() == 0) {
    kill(stopped, SIGSTOP);
    std::this_thread::sleep_for(milliseconds(1500));
    kill(stopped, SIGCONT);
    _exit(0);
  }
  for (int steps_after = 0; steps_after < 100;) {
    watchdog.beat("step", steps_after);
    std::this_thread::sleep_for(milliseconds(10));
    const auto now = std::chrono::steady_clock::now();
    if (steps_after > 0 || now - last > milliseconds(1000)) ++steps_after;
    last = now;
  }
}

TEST_F(WatchdogDeathTest, LeavesAfterAStopIfTheOthersHaveGivenItUp) {
  for (const bool told : {true, false}) {
    const auto run = [told] {
      Watchdog watchdog(1, say_and_leave);
      watchdog.leave_when_reported([told] { return told; });
      move_around_a_stop(watchdog);
      _exit(0);
    };

    EXPECT_EXIT(run(), testing::ExitedWithCode(told ? 3 : 0), "^$");
  }
}

void compute_for(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST_F(WatchdogDeathTest, LetsAThreadWorkForAsLongAsItTakesProcessorTime) {
  expect_exit(0, "^$", [] {
    Watchdog watchdog(1, say_and_leave);
    {
      CpuProgressScope working(watchdog, "opening the data");
      compute_for(2.5);
      working.next("reading the checkpoint");
      compute_for(1.5);
    }
    _exit(0);
  });
}

TEST_F(WatchdogDeathTest, EndsAThreadThatWorksAndTakesNone) {
  expect_exit(3, "nothing has moved .*: opening the data\n", [] {
    Watchdog watchdog(0.3, say_and_leave);
    const CpuProgressScope working(watchdog, "opening the data");
    std::this_thread::sleep_for(std::chrono::seconds(20));
  });
}

TEST_F(WatchdogDeathTest, CountsProcessorTimeOnlyWhileItWorks) {
  expect_exit(3, "nothing has moved .*: opening the data, done here\n", [] {
    Watchdog watchdog(0.3, say_and_leave);
    { const CpuProgressScope working(watchdog, "opening the data"); }
    compute_for(20);
  });
}

TEST(Watchdog, LetsAJobThatMovesGoOn) {
  // The limit is far above what a loaded machine takes between two beats.
  Watchdog watchdog(60, [](const std::string& sentence) { FAIL() << sentence; });
  for (int step = 0; step < 20; ++step) {
    watchdog.beat("step", step);
    std::this_thread::sleep_for(milliseconds(5));
  }

  EXPECT_STREQ(watchdog.activity().what, "step");
  EXPECT_EQ(watchdog.activity().step, 19);
  EXPECT_EQ(watchdog.activity().index, -1);
}

TEST_F(WatchdogDeathTest, IsOffWithoutALimit) {
  expect_exit(0, "", [] {
    Watchdog watchdog(0, say_and_leave);
    std::this_thread::sleep_for(milliseconds(600));
    _exit(0);
  });
}

TEST_F(WatchdogDeathTest, GivesThoseWhoCatchUpTheirTime) {
  const auto run = [](bool set_before) {
    Watchdog watchdog(0, say_and_leave);
    if (set_before) watchdog.set_deadline(0.1);
    watchdog.postpone_deadline(3);
    if (!set_before) watchdog.set_deadline(0.1);
    std::this_thread::sleep_for(milliseconds(500));
    std::cerr << "still here" << std::endl;
    hang();
  };

  EXPECT_EXIT(run(true), testing::ExitedWithCode(3),
              "still here.*did not reach the agreed stop within 3.1 s");
  EXPECT_EXIT(run(false), testing::ExitedWithCode(3),
              "still here.*did not reach the agreed stop within 3.1 s");
}

TEST_F(WatchdogDeathTest, ForgetsADeadlineThatIsCleared) {
  expect_exit(0, "", [] {
    Watchdog watchdog(0, say_and_leave);
    watchdog.set_deadline(0.3);
    watchdog.clear_deadline();
    std::this_thread::sleep_for(milliseconds(900));
    _exit(0);
  });
}

}  // namespace
}  // namespace flotilla::mpi
