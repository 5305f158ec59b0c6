// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>

namespace flotilla::report {

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

}  // namespace flotilla::report
