// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <time.h>

#include "kernels/processor/pause.hpp"

namespace flotilla::mpi {

/// Waits for another process: spins, then yields the processor, and after some milliseconds sleeps for short
/// times.
class Backoff {
 public:
  /// `spins`: pauses of 20 to 50 ns before the first sched_yield(); `yields`: of these before the first nap.
  explicit Backoff(int spins, int yields = 20'000, long nap_ns = 50'000)
      : spins_(spins), yields_(yields), nap_ns_(nap_ns) {}

  void pause() {
    if (rounds_ <= spins_ + yields_) ++rounds_;
    if (rounds_ <= spins_) {
      spin_pause();
    } else if (rounds_ <= spins_ + yields_) {
      sched_yield();
    } else {
      const timespec nap{.tv_sec = 0, .tv_nsec = nap_ns_};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  int spins_;
  int yields_;
  long nap_ns_;
  int rounds_ = 0;
};

/// Calls `done` until it returns true.
template <class Done>
void wait_until(Done done, Backoff backoff) {
  while (!done()) backoff.pause();
}

}  // namespace flotilla::mpi
