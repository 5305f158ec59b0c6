// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace flotilla {

/// Means of a training's steps over its last two to four seconds, for the line on the terminal.
class RecentRates {
 public:
  /// Since the start of training.
  struct Totals {
    std::int64_t steps = 0;
    std::int64_t step_ns = 0;
    std::int64_t wait_ns = 0;  ///< For input and for other workers; a part of step_ns
  };

  /// @param now_ns of a clock that does not go back
  void update(const Totals& totals, std::int64_t now_ns) {
    if (now_ns - marked_ns_ >= mark_every_ns) {
      older_ = newer_;
      newer_ = now_;
      marked_ns_ = now_ns;
    }
    now_ = totals;
  }
  double step_s() const {
    return 1e-9 * static_cast<double>(now_.step_ns - older_.step_ns) /
           static_cast<double>(std::max<std::int64_t>(1, now_.steps - older_.steps));
  }
  /// Share of the time, in [0, 1].
  double waiting() const {
    return static_cast<double>(now_.wait_ns - older_.wait_ns) /
           static_cast<double>(std::max<std::int64_t>(1, now_.step_ns - older_.step_ns));
  }

 private:
  static constexpr std::int64_t mark_every_ns = 2'000'000'000;

  Totals older_;
  Totals newer_;
  Totals now_;
  std::int64_t marked_ns_ = 0;
};

}  // namespace flotilla
