// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/class_metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/error.hpp"
#include "src/train/monitor/click_metrics.hpp"

namespace flotilla {

namespace {

constexpr std::size_t of_class = 3;  // samples, predictions, hits
constexpr std::size_t first_class = 1;

/// A mean of what is added.
struct Mean {
  double sum = 0.0;
  std::int64_t count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return count > 0 ? sum / static_cast<double>(count) : 0.0; }
};

}  // namespace

ClassCounts::ClassCounts(std::int64_t classes)
    : classes_(static_cast<std::size_t>(classes)),
      bins_(classes <= max_classes_of_auc ? std::min(max_bins, max_cells / 2 / classes_) : 0),
      exponentials_(classes_),
      counts_(first_class + classes_ * (of_class + 2 * bins_)) {}

void ClassCounts::add(std::span<const float> logits, std::span<const std::int32_t> labels) {
  require(logits.size() == classes_ * labels.size(), labels.size(), " labels came with ", logits.size(),
          " logits");
  std::int64_t* const cells = counts_.data() + first_class + of_class * classes_;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const std::span<const float> of_row = logits.subspan(row * classes_, classes_);
    const auto highest = std::ranges::max_element(of_row);
    double sum = 0.0;
    for (std::size_t c = 0; c < classes_; ++c)
      sum += exponentials_[c] = std::exp(static_cast<double>(of_row[c]) - static_cast<double>(*highest));
    if (!std::isfinite(sum)) {
      ++counts_[0];
      continue;
    }
    const auto label = static_cast<std::size_t>(labels[row]);
    const auto predicted = static_cast<std::size_t>(highest - of_row.begin());
    ++counts_[first_class + of_class * label];
    ++counts_[first_class + of_class * predicted + 1];
    if (label == predicted) ++counts_[first_class + of_class * label + 2];
    if (bins_ == 0) continue;
    const double scale = static_cast<double>(bins_ - 1) / sum;
    for (std::size_t c = 0; c < classes_; ++c) {
      const std::size_t bin = std::min(bins_ - 1, static_cast<std::size_t>(exponentials_[c] * scale));
      ++cells[2 * (c * bins_ + bin) + (c == label ? 1 : 0)];
    }
  }
}

void ClassCounts::merge(const mpi::Communicator& workers) {
  workers.all_reduce(std::span<std::int64_t>(counts_));
}

Figures ClassCounts::metrics() const {
  Mean f1;
  Mean recall;
  Mean area;
  Mean bound;
  std::int64_t all = 0;
  for (std::size_t c = 0; c < classes_; ++c) all += counts_[first_class + of_class * c];
  for (std::size_t c = 0; c < classes_; ++c) {
    const std::span<const std::int64_t> own =
        std::span(counts_).subspan(first_class + of_class * c, of_class);
    const auto hits = static_cast<double>(own[2]);
    if (own[0] + own[1] > 0) f1.add(2.0 * hits / static_cast<double>(own[0] + own[1]));
    if (own[0] > 0) recall.add(hits / static_cast<double>(own[0]));
    if (bins_ == 0 || own[0] == 0 || own[0] == all) continue;
    const auto cells =
        std::span(counts_).subspan(first_class + of_class * classes_ + 2 * bins_ * c, 2 * bins_);
    area.add(auc_of(cells));
    bound.add(auc_bound_of(cells));
  }
  Figures figures = {{"macro_f1", f1.value()}, {"balanced_accuracy", recall.value()}};
  if (area.count > 0) {
    figures.emplace("roc_auc", area.value());
    figures.emplace("roc_auc_bound", bound.value());
  }
  if (counts_[0] > 0)
    for (auto& [key, value] : figures) value = std::numeric_limits<double>::quiet_NaN();
  return figures;
}

}  // namespace flotilla
