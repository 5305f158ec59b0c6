// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/observe/reporter.hpp"

namespace flotilla {

/// One key of one event in metrics.jsonl.
struct MetricKey {
  std::string event;
  std::string key;
  std::string
      type;  ///< "integer", "number" (null: not finite), "text"; ", optional" follows where it may lack
  std::string unit;
  std::string meaning;
};

/// Every event and key, in the order in which they are written. docs/metrics.md shows the same table.
std::vector<MetricKey> metrics_schema();

/// The line of metrics.jsonl of a report, line feed included. `time_s`: seconds since the epoch.
template <class Report>
std::string metrics_line(const Report& report, double time_s);

}  // namespace flotilla
