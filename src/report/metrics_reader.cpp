// SPDX-License-Identifier: Apache-2.0
#include "src/report/metrics_reader.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <future>
#include <span>
#include <thread>
#include <utility>

#include "src/files/file.hpp"

namespace flotilla::report {

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

}  // namespace flotilla::report
