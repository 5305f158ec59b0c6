// SPDX-License-Identifier: Apache-2.0
#include "src/observe/live_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "src/observe/console.hpp"

namespace flotilla {

namespace {

constexpr std::size_t widest_bar = 24;
constexpr std::size_t narrowest_bar = 4;

/// One field of a line: fields are shown in their order, and left out by falling rank.
struct Field {
  int rank;
  std::string text;
};

std::string joined(const std::vector<Field>& fields, int highest_rank) {
  std::string text;
  for (const Field& field : fields)
    if (field.rank <= highest_rank) text += (text.empty() ? "" : ", ") + field.text;
  return text;
}

/// The fields that fit into `width` characters; those of rank 0 in any case.
std::string fitted(const std::vector<Field>& fields, std::size_t width) {
  int highest = std::ranges::max(fields, {}, &Field::rank).rank;
  std::string text = joined(fields, highest);
  while (highest > 0 && text.size() > width) text = joined(fields, --highest);
  return text;
}

std::size_t width_of(int columns) {
  return static_cast<std::size_t>(std::max(columns - 1, 0));
}

std::string with_bar(double share, const std::vector<Field>& fields, int columns) {
  const std::size_t width = width_of(columns);
  const double shown = std::clamp(share, 0.0, 1.0);
  const std::string head = fmt::format("{:3} % ", static_cast<int>(std::floor(100.0 * shown)));
  const std::string text = fitted(fields, width - std::min(width, head.size()));
  const std::size_t taken = head.size() + text.size() + 3;  // "[" and "] "
  if (width < taken + narrowest_bar) return (head + text).substr(0, width);
  const std::size_t cells = std::min(width - taken, widest_bar);
  const auto full = static_cast<std::size_t>(static_cast<double>(cells) * shown);
  return head + '[' + std::string(full, '#') + std::string(cells - full, '.') + "] " + text;
}

/// Of a run that a time ends: neither its steps nor what is left of them is known.
std::string line_without_end(const LiveStep& now, int columns) {
  std::vector<Field> fields{
      {1, fmt::format("epoch {}", now.epoch)},
      {0, fmt::format("step {}", now.step)},
      {0, fmt::format("loss {:.5f}", now.loss)},
      {2, fmt::format("{:.{}f} samples/s", now.samples_per_s, now.samples_per_s < 100.0 ? 2 : 0)}};
  if (now.waiting) fields.push_back({3, fmt::format("waiting {:.0f} %", 100.0 * *now.waiting)});
  return fitted(fields, width_of(columns)).substr(0, width_of(columns));
}

}  // namespace

std::string line_with_bar(double share, const std::vector<std::string>& fields, int columns) {
  std::vector<Field> ranked;
  for (const std::string& text : fields) ranked.push_back({static_cast<int>(ranked.size()), text});
  return with_bar(share, ranked, columns);
}

std::string live_line(const StartReport& run, const LiveStep& now, int columns) {
  if (run.steps == 0) return line_without_end(now, columns);
  const auto left = static_cast<double>(std::max<std::int64_t>(run.steps - now.step, 0));
  const std::int64_t left_of_epoch = std::max<std::int64_t>(run.steps_per_epoch - now.batch, 0);
  const double epochs_to_come =
      run.steps_per_epoch > 0
          ? std::ceil((left - static_cast<double>(left_of_epoch)) / static_cast<double>(run.steps_per_epoch))
          : 0.0;
  const std::int64_t epochs = now.epoch + 1 + static_cast<std::int64_t>(std::max(epochs_to_come, 0.0));
  std::vector<Field> fields{
      {3, fmt::format("epoch {} of {}", now.epoch, epochs)},
      {1, fmt::format("step {}/{}", now.step, run.steps)},
      {2, fmt::format("loss {:.5f}", now.loss)},
      {4, fmt::format("{:.{}f} samples/s", now.samples_per_s, now.samples_per_s < 100.0 ? 2 : 0)}};
  if (epochs > now.epoch + 1)
    fields.push_back(
        {6, fmt::format("epoch {} left", duration_text(static_cast<double>(left_of_epoch) * now.step_s))});
  fields.push_back(
      {0, fmt::format("run {} left", duration_text(left * now.seconds_per_step.value_or(now.step_s)))});
  if (now.waiting) fields.push_back({5, fmt::format("waiting {:.0f} %", 100.0 * *now.waiting)});
  return with_bar(static_cast<double>(now.step) / static_cast<double>(run.steps), fields, columns);
}

}  // namespace flotilla
