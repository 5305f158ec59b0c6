// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace flotilla {

/// The unit of a ProgressLine's amounts.
enum class Amount { items, bytes };

/// Work that may take long, shown as the last line of the terminal while it lasts, from half a second on and
/// five times a second: " 45 % [####......] reading train.txt, 1.2 GB of 3.4 GB, 12 s left". Shows nothing in
/// a process whose Console has no terminal. To be used by one thread.
class ProgressLine {
 public:
  /// @param what the work, "reading train.txt" @param total 0: not known
  ProgressLine(std::string what, std::int64_t total, Amount amount);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();  ///< Removes the line.

  /// @param done of `total`, so far
  void at(std::int64_t done) {
    if (shows_) renew(done);
  }

 private:
  using Clock = std::chrono::steady_clock;
  void renew(std::int64_t done);

  std::string what_;
  std::int64_t total_;
  Amount amount_;
  bool shows_;
  bool shown_ = false;
  Clock::time_point began_ = Clock::now();
  Clock::time_point next_;
};

}  // namespace flotilla
