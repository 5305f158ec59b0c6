// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/click_log.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"

namespace flotilla {

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
