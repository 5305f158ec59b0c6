// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/click_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Losses and probabilities are added up in these steps: exact sums of 3·10¹⁰ probabilities, and of 10⁹
/// losses even if all are at their limit.
constexpr double steps_per_unit = 268435456.0;  // 2^28
const double largest_loss = -std::log(1e-15);

std::int64_t in_steps(double value) {
  return std::llround(value * steps_per_unit);
}

/// −ln of the probability that was given to what happened.
double loss_of(std::span<const float> logits, bool clicked) {
  const double lead =
      static_cast<double>(logits[clicked ? 1 : 0]) - static_cast<double>(logits[clicked ? 0 : 1]);
  return std::log1p(std::exp(-std::abs(lead))) + std::max(-lead, 0.0);
}

struct ClickTotals {
  double clicked = 0.0;
  double others = 0.0;
};

double number(std::int64_t count) {
  return static_cast<double>(count);
}

ClickTotals click_totals(std::span<const std::int64_t> cells) {
  std::int64_t clicked = 0;
  std::int64_t others = 0;
  for (std::size_t cell = 0; cell < cells.size(); cell += 2) {
    others += cells[cell];
    clicked += cells[cell + 1];
  }
  return {number(clicked), number(others)};
}

}  // namespace

double click_probability(std::span<const float> logits) {
  return 1.0 / (1.0 + std::exp(static_cast<double>(logits[0]) - static_cast<double>(logits[1])));
}

std::size_t click_cell(double p, bool clicked) {
  return 2 * static_cast<std::size_t>(p * static_cast<double>(click_bins - 1)) + (clicked ? 1 : 0);
}

double auc_of(std::span<const std::int64_t> cells) {
  const ClickTotals all = click_totals(cells);
  if (all.clicked == 0.0 || all.others == 0.0) return 0.5;
  double area = 0.0;
  double above = 0.0;  // Clicked samples in the bins above
  for (std::size_t cell = cells.size(); cell > 0; cell -= 2) {
    const double clicked = number(cells[cell - 1]);
    area += number(cells[cell - 2]) * (above + 0.5 * clicked);
    above += clicked;
  }
  return area / (all.clicked * all.others);
}

double auc_bound_of(std::span<const std::int64_t> cells) {
  const ClickTotals all = click_totals(cells);
  if (all.clicked == 0.0 || all.others == 0.0) return 0.0;
  double pairs = 0.0;
  for (std::size_t cell = 0; cell < cells.size(); cell += 2)
    pairs += number(cells[cell]) * number(cells[cell + 1]);
  return pairs / (2.0 * all.clicked * all.others);
}

double pr_auc_of(std::span<const std::int64_t> cells) {
  const ClickTotals all = click_totals(cells);
  if (all.clicked == 0.0) return 0.0;
  double area = 0.0;
  double clicked = 0.0;
  double others = 0.0;
  for (std::size_t cell = cells.size(); cell > 0; cell -= 2) {
    const double more = number(cells[cell - 1]);
    clicked += more;
    others += number(cells[cell - 2]);
    if (more > 0.0) area += more * clicked / (clicked + others);
  }
  return area / all.clicked;
}

void ClickCounts::add(std::span<const float> logits, std::span<const std::int32_t> labels) {
  require(logits.size() == 2 * labels.size(), labels.size(), " labels came with ", logits.size(), " logits");
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::span<const float> both = logits.subspan(2 * row, 2);
    const double p = click_probability(both);
    if (std::isnan(p)) {
      ++counts_[sum_not_a_number];
      continue;
    }
    const bool clicked = labels[row] == 1;
    ++counts_[click_cell(p, clicked)];
    counts_[sum_p] += in_steps(p);
    counts_[sum_loss] += in_steps(std::min(loss_of(both, clicked), largest_loss));
  }
}

void ClickCounts::merge(const mpi::Communicator& workers) {
  workers.all_reduce(std::span<std::int64_t>(counts_));
}

Figures ClickCounts::metrics() const {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const ClickTotals all = click_totals(cells());
  Figures figures = {
      {"auc", auc_of(cells())},
      {"auc_bound", auc_bound_of(cells())},
      {"pr_auc", pr_auc_of(cells())},
      {"log_loss", number(counts_[sum_loss]) / steps_per_unit / (all.clicked + all.others)},
      {"calibration", all.clicked == 0.0 ? nan : number(counts_[sum_p]) / steps_per_unit / all.clicked}};
  if (counts_[sum_not_a_number] > 0)
    for (auto& [key, value] : figures) value = nan;
  return figures;
}

ClickLog::ClickLog(std::size_t batch, std::size_t window)
    : window_(window),
      kept_(batch * window),
      sizes_(window),
      counts_(2 * click_cells),
      merged_(2 * click_cells) {
  require(window > 0, "a window holds at least one batch");
  static_assert(click_cells <= 65536);
}

void ClickLog::add(std::span<const float> logits, std::span<const std::int32_t> labels) {
  const std::size_t batch = kept_.size() / window_;
  require(labels.size() <= batch && logits.size() == 2 * labels.size(), "a batch of ", labels.size(),
          " samples with ", logits.size(), " logits came where at most ", batch, " samples fit");
  const std::span<std::int64_t> all = std::span(counts_).first(click_cells);
  const std::span<std::int64_t> recent = std::span(counts_).last(click_cells);
  const std::span<std::uint16_t> cells = std::span(kept_).subspan(oldest_ * batch, batch);
  std::size_t& size = sizes_[oldest_];
  oldest_ = (oldest_ + 1) % window_;
  for (const std::uint16_t cell : cells.first(size)) --recent[cell];
  size = 0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const double p = click_probability(logits.subspan(2 * row, 2));
    if (std::isnan(p)) continue;
    const std::size_t cell = click_cell(p, labels[row] == 1);
    ++all[cell];
    ++recent[cell];
    cells[size++] = static_cast<std::uint16_t>(cell);
  }
}

void ClickLog::clear() {
  std::ranges::fill(std::span(counts_).first(click_cells), 0);
}

ClickLog::Areas ClickLog::areas(const mpi::Communicator* workers) {
  std::ranges::copy(counts_, merged_.begin());
  const std::span<std::int64_t> merged(merged_);
  if (workers != nullptr) workers->all_reduce(merged);
  return {.auc = auc_of(merged.first(click_cells)), .batch_auc = auc_of(merged.last(click_cells))};
}

}  // namespace flotilla
