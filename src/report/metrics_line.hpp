// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::report {

/// A key of a line of metrics.jsonl and its value as JSON text: `0.5`, `null`, `"done"` with its quotes.
struct MetricValue {
  std::string_view key;
  std::string_view text;
};

/// Splits one JSON object into its keys and values; what an array or an object holds stays one text. The
/// views point into `line`. @returns false if the line is no such object: damaged or cut off
bool split_metrics_line(std::string_view line, std::vector<MetricValue>& values);

/// The number of a JSON text; NaN for `null`. Nothing if it is no number.
std::optional<double> metric_number(std::string_view text);

/// What a JSON string holds, its escapes resolved; other values as they are written.
std::string metric_text(std::string_view text);

}  // namespace flotilla::report
