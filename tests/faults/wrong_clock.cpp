// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <ctime>

// Loaded into a program before it starts: its wall clock jumps every 0.2 s, by a day forwards, by two days
// backwards, by years. The clock that only measures how long things take (CLOCK_MONOTONIC) is left alone.

namespace {

constexpr long day_s = 86'400;
constexpr std::array<long, 4> jumps_s = {0, day_s, -day_s, 10 * 365 * day_s};

timespec system_time(clockid_t clock) {
  timespec time{};
  syscall(SYS_clock_gettime, clock, &time);
  return time;
}

timespec wrong_time() {
  const timespec running = system_time(CLOCK_MONOTONIC);
  timespec time = system_time(CLOCK_REALTIME);
  const auto fifths = static_cast<std::size_t>(running.tv_sec * 5 + running.tv_nsec / 200'000'000);
  time.tv_sec += jumps_s[fifths % jumps_s.size()];
  return time;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
    *time = wrong_time();
    return 0;
  }
  return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
}

int gettimeofday(timeval* time, void*) noexcept {
  const timespec now = wrong_time();
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

std::time_t time(std::time_t* result) noexcept {
  const std::time_t now = wrong_time().tv_sec;
  if (result != nullptr) *result = now;
  return now;
}

}  // extern "C"
