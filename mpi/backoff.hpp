// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <time.h>

namespace flotilla::mpi {

/// Tells the processor that this thread waits for another one's store.
inline void spin_pause() {
  __builtin_ia32_pause();
}

/// Waiting for another thread or process, politely: spins for about a microsecond, then lets others run
/// (there may be more ranks than cores), and after some milliseconds, when a tenth of one more does not
/// count, sleeps.
class Backoff {
 public:
  void pause() {
    ++rounds_;
    if (rounds_ < spins_) {
      spin_pause();
    } else if (rounds_ < yields_) {
      sched_yield();
    } else {
      const timespec nap{.tv_sec = 0, .tv_nsec = 50'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  static constexpr int spins_ = 64;
  static constexpr int yields_ = 20'000;
  int rounds_ = 0;
};

}  // namespace flotilla::mpi
