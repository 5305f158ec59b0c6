// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <time.h>

#include <cstdint>

#include "kernels/processor/pause.hpp"
#include "kernels/trace.hpp"

namespace flotilla::mpi {

/// Waits for another process: spins, then yields the processor, and after some milliseconds sleeps for short
/// times.
class Backoff {
 public:
  /// `spins`: pauses of 20 to 50 ns before the first sched_yield(); `yield_ns`: from then to the first nap. A
  /// time, because a yield takes 0.3 us where no other process wants the processor, and milliseconds
  /// elsewhere.
  explicit Backoff(int spins, std::int64_t yield_ns = 5'000'000, long nap_ns = 50'000)
      : spins_(spins), yield_ns_(yield_ns), nap_ns_(nap_ns) {}

  void pause() {
    if (spins_ > 0) {
      --spins_;
      return spin_pause();
    }
    const std::int64_t now_ns = trace::now_ns();
    if (first_nap_ns_ == 0) first_nap_ns_ = now_ns + yield_ns_;
    if (now_ns < first_nap_ns_) {
      sched_yield();
      return;
    }
    const timespec nap{.tv_sec = 0, .tv_nsec = nap_ns_};
    nanosleep(&nap, nullptr);
  }

 private:
  int spins_;
  std::int64_t yield_ns_;
  long nap_ns_;
  std::int64_t first_nap_ns_ = 0;  ///< 0: it has not yielded yet
};

/// Calls `done` until it returns true.
template <class Done>
void wait_until(Done done, Backoff backoff) {
  while (!done()) backoff.pause();
}

}  // namespace flotilla::mpi
