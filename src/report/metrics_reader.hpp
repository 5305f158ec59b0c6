// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/report/metrics_line.hpp"
#include "src/report/step_line.hpp"

namespace flotilla::report {

/// A line of metrics.jsonl that is whole.
struct MetricsLine {
  bool is_step = false;
  StepLine step{};     ///< Of a `step` line
  std::string text{};  ///< Of all others
};

/// Lines that could not be read.
struct DamagedLines {
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< From 1
};

/// Reads metrics.jsonl from its start, in blocks, several at a time on threads of their own, and hands over
/// the lines in their order. The last line may be incomplete while a run writes it: then it is not counted as
/// damaged.
/// @throws UserError if the file cannot be read
DamagedLines read_metrics(const std::string& path, const std::function<void(const MetricsLine&)>& take);

/// The lines as they are written, in their order, without damaged ones: for those that want every key.
void read_metric_values(const std::string& path,
                        const std::function<void(const std::vector<MetricValue>&)>& take);

}  // namespace flotilla::report
