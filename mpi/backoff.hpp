// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <time.h>

namespace flotilla::mpi {

/// Tells the processor that this thread waits for another one's store.
inline void spin_pause() {
  __builtin_ia32_pause();
}

/// Waiting for another process, politely: spins, then lets others run, and after some milliseconds, when a
/// hundredth of one more does not count, sleeps.
class Backoff {
 public:
  /// `spins`: pauses of 20 to 50 ns before the first sched_yield().
  explicit Backoff(int spins) : spins_(spins) {}

  void pause() {
    ++rounds_;
    if (rounds_ <= spins_) {
      spin_pause();
    } else if (rounds_ <= spins_ + yields_) {
      sched_yield();
    } else {
      const timespec nap{.tv_sec = 0, .tv_nsec = 50'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  static constexpr int yields_ = 20'000;
  int spins_;
  int rounds_ = 0;
};

}  // namespace flotilla::mpi
