// SPDX-License-Identifier: Apache-2.0
#include "src/report/metrics_line.hpp"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

namespace flotilla::report {

namespace {

/// The place behind a JSON string that begins at `at`; npos if it does not end.
std::size_t end_of_string(std::string_view line, std::size_t at) {
  for (std::size_t i = at + 1; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

/// The place behind an array or object that begins at `at`; npos if it does not end.
std::size_t end_of_nested(std::string_view line, std::size_t at) {
  int depth = 0;
  for (std::size_t i = at; i < line.size();) {
    if (line[i] == '"') {
      i = end_of_string(line, i);
      if (i == std::string_view::npos) return i;
      continue;
    }
    depth += line[i] == '{' || line[i] == '[' ? 1 : line[i] == '}' || line[i] == ']' ? -1 : 0;
    ++i;
    if (depth == 0) return i;
  }
  return std::string_view::npos;
}

/// The place behind the value that begins at `at`; npos if there is none.
std::size_t end_of_value(std::string_view line, std::size_t at) {
  if (at >= line.size()) return std::string_view::npos;
  if (line[at] == '"') return end_of_string(line, at);
  if (line[at] == '{' || line[at] == '[') return end_of_nested(line, at);
  std::size_t end = at;
  while (end < line.size() && line[end] != ',' && line[end] != '}') ++end;
  return end == at || end == line.size() ? std::string_view::npos : end;
}

}  // namespace

bool split_metrics_line(std::string_view line, std::vector<MetricValue>& values) {
  values.clear();
  const auto skip_spaces = [&](std::size_t at) {
    while (at < line.size() && (line[at] == ' ' || line[at] == '\t' || line[at] == '\r')) ++at;
    return at;
  };
  const auto holds = [&](std::size_t at, char what) { return at < line.size() && line[at] == what; };
  std::size_t at = skip_spaces(0);
  if (!holds(at, '{')) return false;
  do {
    at = skip_spaces(at + 1);
    if (!holds(at, '"')) return false;
    const std::size_t key_end = end_of_string(line, at);
    if (key_end == std::string_view::npos) return false;
    const std::string_view key = line.substr(at + 1, key_end - at - 2);
    at = skip_spaces(key_end);
    if (!holds(at, ':')) return false;
    at = skip_spaces(at + 1);
    const std::size_t end = end_of_value(line, at);
    if (end == std::string_view::npos) return false;
    std::string_view text = line.substr(at, end - at);
    while (text.ends_with(' ')) text.remove_suffix(1);
    values.push_back({key, text});
    at = skip_spaces(end);
  } while (holds(at, ','));
  return holds(at, '}') && skip_spaces(at + 1) == line.size();
}

std::optional<double> metric_number(std::string_view text) {
  if (text == "null") return std::numeric_limits<double>::quiet_NaN();
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string metric_text(std::string_view text) {
  if (!text.starts_with('"')) return std::string(text);
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  return parsed.is_string() ? parsed.get<std::string>() : std::string(text.substr(1, text.size() - 2));
}

}  // namespace flotilla::report
