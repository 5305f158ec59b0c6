// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/observe/reporter.hpp"

namespace flotilla {

/// A training at one moment.
struct LiveStep {
  std::int64_t step = 0;   ///< Done
  std::int64_t epoch = 0;  ///< Begun before this one
  std::int64_t batch = 0;  ///< Of the epoch, from 1
  double loss = 0.0;
  double samples_per_s = 0.0;  ///< All workers, over the last seconds
  double step_s = 0.0;         ///< A step, over the last seconds
  std::optional<double>
      waiting{};  ///< Share of the time spent waiting for input and other workers, in [0, 1]
  std::optional<double>
      seconds_per_step{};  ///< Of the run so far with all that happens between steps; else step_s
};

/// The terminal's last line about a training:
/// " 45 % [####......] epoch 2 of 10, step 203/790, loss 0.12342, 111483 samples/s, epoch 1.2 s left, run 5.1
/// s left, waiting 12 %". At most columns − 1 wide: what matters least is left out first. Epochs are counted
/// from 0, as in all lines of a run.
std::string live_line(const StartReport& run, const LiveStep& now, int columns);

/// " 45 % [####......] staging data, 1.2 GB of 3.4 GB, 12 s left": at most columns − 1 wide.
/// @param fields by falling importance, the first stays in any case
std::string line_with_bar(double share, const std::vector<std::string>& fields, int columns);

}  // namespace flotilla
