// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/observe/reporter.hpp"

namespace flotilla {

/// One key of one event in metrics.jsonl.
struct MetricKey {
  std::string event;
  std::string key;
  std::string type;  ///< "integer", "number" (null: not finite), "text", "array of numbers"; ", optional"
                     ///< follows where it may lack
  std::string unit;
  std::string meaning;
};

/// Every event and key, in the order in which they are written. docs/metrics.md shows the same table.
std::vector<MetricKey> metrics_schema();

/// The line of metrics.jsonl of a report, line feed included. `time_s`: seconds since the epoch.
template <class Report>
std::string metrics_line(const Report& report, double time_s);

/// A line of metrics.jsonl that was read.
struct ReadReport {
  std::variant<StartReport, StepReport, ValidationReport, CheckpointReport, EndReport> report;
  double time_s = 0.0;  ///< When it was written, since 1970
};

/// Reads a line that metrics_line() wrote; null is NaN. Empty for every other text: an unfinished line, an
/// event of a later version.
std::optional<ReadReport> read_metrics_line(std::string_view line);

/// The exit code of a run whose last line is an "end" with this reason: exit_stopped where it is to be
/// started again.
int exit_code_of_reason(const std::string& reason);

}  // namespace flotilla
