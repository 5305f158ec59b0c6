// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "kernels/trace.hpp"

namespace flotilla {

/// Adds the time from its construction to its destruction.
class Stopwatch {
 public:
  explicit Stopwatch(std::int64_t& total_ns) : total_ns_(total_ns), begin_ns_(trace::now_ns()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { total_ns_ += trace::now_ns() - begin_ns_; }

 private:
  std::int64_t& total_ns_;
  std::int64_t begin_ns_;
};

inline double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

/// The time of day: seconds since 1970, UTC.
inline double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace flotilla
