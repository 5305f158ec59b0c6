// SPDX-License-Identifier: Apache-2.0
#include "src/report/csv.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "src/files/atomic_file.hpp"
#include "src/report/metrics_reader.hpp"
#include "src/report/read_run.hpp"

namespace flotilla::report {

namespace {

std::string_view value_of(const std::vector<MetricValue>& values, std::string_view key) {
  const auto found = std::ranges::find(values, key, &MetricValue::key);
  return found == values.end() ? std::string_view() : found->text;
}

/// The keys of an event's lines, and where each attempt began.
struct Outline {
  std::vector<std::string> keys;
  std::vector<double> first_steps;
};

Outline outline_of(const std::string& metrics, const std::string& event) {
  Outline outline;
  read_metric_values(metrics, [&](const std::vector<MetricValue>& values) {
    const std::string_view of_line = value_of(values, "event");
    if (of_line == "\"start\"")
      outline.first_steps.push_back(metric_number(value_of(values, "first_step")).value_or(0.0));
    if (of_line != event) return;
    for (const MetricValue& value : values)
      if (value.key != "event" && std::ranges::find(outline.keys, value.key) == outline.keys.end())
        outline.keys.emplace_back(value.key);
  });
  return outline;
}

void append_field(std::string& row, std::string_view json) {
  if (json.empty() || json == "null") return;
  const std::string text = metric_text(json);
  if (text.find_first_of(",\"\r\n") == std::string::npos) {
    row += text;
    return;
  }
  row += '"';
  for (const char c : text) row.append(c == '"' ? 2 : 1, c);
  row += '"';
}

void append_row(std::string& text, const std::vector<MetricValue>& values,
                const std::vector<std::string>& keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) text += ',';
    // Mostly the place in the line is that in the header, behind "event".
    append_field(text, i + 1 < values.size() && values[i + 1].key == keys[i] ? values[i + 1].text
                                                                             : value_of(values, keys[i]));
  }
  text += "\r\n";
}

}  // namespace

std::int64_t write_csv(const std::string& metrics, const std::string& event, const std::string& output) {
  const std::string quoted_event = '"' + event + '"';
  const Outline outline = outline_of(metrics, quoted_event);
  if (outline.keys.empty()) return 0;
  const std::vector<double> counted = last_counted_steps(outline.first_steps);
  AtomicFile file(output);
  std::string text;
  for (const std::string& key : outline.keys) text += (text.empty() ? "" : ",") + key;
  text += "\r\n";
  std::size_t attempt = 0;
  std::int64_t rows = 0;
  read_metric_values(metrics, [&](const std::vector<MetricValue>& values) {
    const std::string_view of_line = value_of(values, "event");
    if (of_line == "\"start\"") ++attempt;
    if (of_line != quoted_event || attempt >= counted.size()) return;
    if (metric_number(value_of(values, "step")).value_or(0.0) > counted[attempt]) return;
    append_row(text, values, outline.keys);
    ++rows;
    if (text.size() < (1U << 20U)) return;
    file.append(text);
    text.clear();
  });
  file.append(text);
  file.commit();
  return rows;
}

}  // namespace flotilla::report
