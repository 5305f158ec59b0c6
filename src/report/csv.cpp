// SPDX-License-Identifier: Apache-2.0
#include "src/report/csv.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "src/files/atomic_file.hpp"
#include "src/report/metrics_reader.hpp"

namespace flotilla::report {

namespace {

std::string_view value_of(const std::vector<MetricValue>& values, std::string_view key) {
  const auto found = std::ranges::find(values, key, &MetricValue::key);
  return found == values.end() ? std::string_view() : found->text;
}

/// Calls `take` for each line of an event. @param event as JSON text, with its quotes
template <class Take>
void for_each_of(const std::string& metrics, const std::string& event, const Take& take) {
  read_metric_values(metrics, [&](const std::vector<MetricValue>& values) {
    if (value_of(values, "event") == event) take(values);
  });
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
  std::vector<std::string> keys;
  for_each_of(metrics, quoted_event, [&](const std::vector<MetricValue>& values) {
    for (const MetricValue& value : values)
      if (value.key != "event" && std::ranges::find(keys, value.key) == keys.end())
        keys.emplace_back(value.key);
  });
  if (keys.empty()) return 0;
  AtomicFile file(output);
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "" : ",") + key;
  text += "\r\n";
  std::int64_t rows = 0;
  for_each_of(metrics, quoted_event, [&](const std::vector<MetricValue>& values) {
    append_row(text, values, keys);
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
