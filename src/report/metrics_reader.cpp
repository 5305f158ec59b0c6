// SPDX-License-Identifier: Apache-2.0
#include "src/report/metrics_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <deque>
#include <future>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/files/atomic_file.hpp"
#include "src/files/file.hpp"

namespace flotilla::report {

namespace {

/// The position after the JSON string that begins at `at`; npos if it does not end.
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

/// The position after the array or object that begins at `at`; npos if it does not end.
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

/// The position after the value that begins at `at`; npos if there is none.
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

namespace {

constexpr std::size_t block_bytes = 4 << 20;

/// Whole lines of the file; the last block may end without a line feed.
struct Block {
  std::string text;
  bool is_last = false;
};

/// Cuts a file into blocks of whole lines.
class BlockReader {
 public:
  explicit BlockReader(const std::string& path) : file_(File::open(path)) {}

  /// An empty last block at the end.
  Block next() {
    Block block{.text = std::exchange(rest_, {}), .is_last = false};
    std::size_t line_end = std::string::npos;
    while (line_end == std::string::npos) {
      const std::size_t before = block.text.size();
      block.text.resize(before + block_bytes);
      const std::size_t got =
          file_.read_some(at_, std::as_writable_bytes(std::span(block.text)).subspan(before));
      at_ += static_cast<std::int64_t>(got);
      block.text.resize(before + got);
      if (got == 0) {
        block.is_last = true;
        return block;
      }
      line_end = block.text.rfind('\n');
    }
    rest_ = block.text.substr(line_end + 1);
    block.text.resize(line_end + 1);
    return block;
  }

 private:
  File file_;
  std::int64_t at_ = 0;
  std::string rest_;
};

/// Calls `take(line)` for each line of a block; a line without its line feed comes with `whole` false.
template <class Take>
void for_each_line(std::string_view text, const Take& take) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool whole = end != std::string_view::npos;
    take(text.substr(0, end), whole);
    text.remove_prefix(whole ? end + 1 : text.size());
  }
}

/// Lines of one event have their keys in one order: the place of a key in a line mostly says which it is.
class StepParser {
 public:
  /// @returns false if a value that should be a number is none, or no step is given
  bool parse(const std::vector<MetricValue>& values, StepLine& line) {
    line.given = 0;
    if (known_.size() < values.size()) known_.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (known_[i].first != values[i].key)
        known_[i] = {
            std::string(values[i].key),
            static_cast<std::size_t>(std::ranges::find(step_keys, values[i].key) - step_keys.begin())};
      const std::size_t key = known_[i].second;
      if (key == step_keys.size()) continue;
      const std::optional<double> number = metric_number(values[i].text);
      if (!number) return false;
      line.set(key, *number);
    }
    const double step = line.number(step_key("step"), -1.0);
    return step >= 0.0 && step < 1e15;
  }

 private:
  std::vector<std::pair<std::string, std::size_t>> known_;
};

struct ParsedBlock {
  std::vector<MetricsLine> lines;
  DamagedLines damaged;  ///< Counted from the block's first line
  std::int64_t line_count = 0;
};

ParsedBlock parse_block(const Block& block) {
  ParsedBlock parsed;
  std::vector<MetricValue> values;
  StepParser parser;
  for_each_line(block.text, [&](std::string_view text, bool whole) {
    ++parsed.line_count;
    MetricsLine line;
    bool good = split_metrics_line(text, values) && !values.empty();
    if (good) {
      line.is_step = values[0].key == "event" && values[0].text == "\"step\"";
      if (line.is_step) {
        good = parser.parse(values, line.step);
      } else {
        line.text = text;
      }
    }
    if (good) {
      parsed.lines.push_back(std::move(line));
    } else if (whole && !text.empty()) {
      if (parsed.damaged.count++ == 0) parsed.damaged.first = parsed.line_count;
    }
  });
  return parsed;
}

}  // namespace

DamagedLines read_metrics(const std::string& path, const std::function<void(const MetricsLine&)>& take) {
  BlockReader reader(path);
  const std::size_t threads = std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
  std::deque<std::future<ParsedBlock>> under_way;
  DamagedLines damaged;
  std::int64_t lines_before = 0;
  for (bool more = true; more || !under_way.empty();) {
    while (more && under_way.size() < threads) {
      Block block = reader.next();
      more = !block.is_last;
      under_way.push_back(
          std::async(std::launch::async, [block = std::move(block)] { return parse_block(block); }));
    }
    const ParsedBlock parsed = under_way.front().get();
    under_way.pop_front();
    if (damaged.count == 0 && parsed.damaged.count > 0) damaged.first = lines_before + parsed.damaged.first;
    damaged.count += parsed.damaged.count;
    lines_before += parsed.line_count;
    for (const MetricsLine& line : parsed.lines) take(line);
  }
  return damaged;
}

void read_metric_values(const std::string& path,
                        const std::function<void(const std::vector<MetricValue>&)>& take) {
  BlockReader reader(path);
  std::vector<MetricValue> values;
  for (bool more = true; more;) {
    const Block block = reader.next();
    more = !block.is_last;
    for_each_line(block.text, [&](std::string_view text, bool) {
      if (split_metrics_line(text, values)) take(values);
    });
  }
}

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
    // A value's position in the line mostly equals its column in the header, counted after "event".
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
