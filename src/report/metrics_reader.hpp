// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
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

/// The contents of a JSON string, its escapes resolved; other values as they are written.
std::string metric_text(std::string_view text);

/// The keys of a `step` line that the report uses.
inline constexpr std::array<std::string_view, 22> step_keys = {
    "time",          "step",       "epoch",          "batch",         "loss",       "loss_mean",
    "accuracy_top1", "auc",        "learning_rate",  "samples_per_s", "step_s",     "input_wait_s",
    "forward_s",     "backward_s", "exposed_comm_s", "optimizer_s",   "sent_bytes", "memory_bytes",
    "period",        "staleness",  "slowest_rank",   "slowest_cost_s"};

/// The place of a key in step_keys. A key that is not there does not compile.
consteval std::size_t step_key(std::string_view name) {
  for (std::size_t i = 0; i < step_keys.size(); ++i)
    if (step_keys[i] == name) return i;
  throw "no such key";
}

/// The numbers of a `step` line.
struct StepLine {
  std::array<double, step_keys.size()> values{};
  unsigned given = 0;  ///< A bit for each key that the line has

  bool has(std::size_t key) const { return (given >> key & 1U) != 0; }
  double number(std::size_t key, double otherwise = 0.0) const { return has(key) ? values[key] : otherwise; }
  void set(std::size_t key, double value) {
    values[key] = value;
    given |= 1U << key;
  }
};

/// A line of metrics.jsonl that is whole.
struct MetricsLine {
  bool is_step = false;
  StepLine step{};     ///< Contents of a `step` line
  std::string text{};  ///< Text of all other lines
};

/// Lines that could not be read.
struct DamagedLines {
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< Number of the first line, from 1
};

/// Reads metrics.jsonl from its start, in blocks, several at a time on threads of their own, and passes on
/// the lines in their order. The last line may be incomplete while a run writes it: then it is not counted as
/// damaged.
/// @throws UserError if the file cannot be read
DamagedLines read_metrics(const std::string& path, const std::function<void(const MetricsLine&)>& take);

/// The lines as they are written, in their order, without damaged ones: for callers that need every key.
void read_metric_values(const std::string& path,
                        const std::function<void(const std::vector<MetricValue>&)>& take);

/// Writes the lines of one event of metrics.jsonl as a table (RFC 4180): a header with every key that occurs,
/// in the order in which they first do, and a row for each line, numbers as they are written there.
/// @returns the number of rows; nothing is written if it is 0
/// @throws UserError if a file cannot be read or written
std::int64_t write_csv(const std::string& metrics, const std::string& event, const std::string& output);

}  // namespace flotilla::report
