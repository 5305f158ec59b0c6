// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/config/config.hpp"
#include "src/observe/metrics.hpp"

namespace flotilla {

// Metrics of predicted clicks; docs/metrics.md has the definitions. Everything is counted in integers, so
// that the counts of several workers add up to exactly those of one that saw all samples.

/// Whether the model's two classes are "not clicked" and "clicked".
inline bool predicts_clicks(const ModelConfig& model) {
  return model.has_embeddings();
}

/// Probabilities p are counted in bins ⌊p · 4095⌋, as in Fleet (docs/fleet.md, "Clicks").
inline constexpr std::size_t click_bins = 4096;

/// The count of bin b and label l is at index 2 b + l.
inline constexpr std::size_t click_cells = 2 * click_bins;

/// p = 1 / (1 + exp(l₀ − l₁)) of two logits, in double.
double click_probability(std::span<const float> logits);
/// The cell in which a prediction is counted. p in [0, 1].
std::size_t click_cell(double p, bool clicked);

/// Area under the ROC curve by trapezoids from the top bin down: the share of pairs of a clicked and another
/// sample that the clicked one leads, pairs of one bin counting half. 0.5 if either kind is missing.
double auc_of(std::span<const std::int64_t> cells);
/// A bound on the difference of auc_of() to the area of the unbinned predictions: Σ pᵢ nᵢ / (2 P N) over the
/// bins.
double auc_bound_of(std::span<const std::int64_t> cells);
/// Area under the precision-recall curve in steps (average precision), from the top bin down. 0 without
/// clicks.
double pr_auc_of(std::span<const std::int64_t> cells);

/// Counts over the predictions of a data set.
class ClickCounts {
 public:
  /// Rows of two logits, and their labels (0 or 1). A sample's loss is −ln p or −ln (1 − p), in double from
  /// the logits, at most 34.54: that of p held in [10⁻¹⁵, 1 − 10⁻¹⁵].
  void add(std::span<const float> logits, std::span<const std::int32_t> labels);
  /// Collective. Adds up the counts of all workers.
  void merge(const mpi::Communicator& workers);
  /// auc, auc_bound, pr_auc, log_loss (nats, mean over the samples) and calibration (Σ p / clicks; NaN
  /// without clicks). All are NaN if a prediction was.
  Figures metrics() const;
  std::span<const std::int64_t> cells() const { return std::span(counts_).first(click_cells); }

 private:
  enum Sum : std::size_t { sum_loss = click_cells, sum_p, sum_not_a_number, all_counts };

  std::vector<std::int64_t> counts_ = std::vector<std::int64_t>(all_counts);
};

/// Metrics of the predictions for training samples, each before its update: of all since clear(), and of the
/// last batches, as in Fleet's examples. Predictions that are NaN are left out: such a run ends.
class ClickLog {
 public:
  static constexpr std::size_t default_window = 20;  ///< Value of docs/fleet.md, "Clicks"

  /// @param batch the most samples of a batch
  /// @param window number of this worker's last batches for batch_auc
  explicit ClickLog(std::size_t batch, std::size_t window = default_window);

  /// The logits (two each) and labels of one batch. Allocates nothing.
  void add(std::span<const float> logits, std::span<const std::int32_t> labels);
  /// Forgets all but the last batches.
  void clear();

  struct Areas {
    double auc = 0.0;
    double batch_auc = 0.0;
  };
  /// The metrics of this worker's samples; or, collective, of those of all `workers`. Allocates nothing.
  Areas areas(const mpi::Communicator* workers);

 private:
  std::size_t window_;
  std::vector<std::uint16_t> kept_;  ///< Cells of the samples in the window, `batch` for each of its batches
  std::vector<std::size_t> sizes_;   ///< Samples of each of them
  std::size_t oldest_ = 0;
  std::vector<std::int64_t> counts_;  ///< Cells of all samples, then those of the window
  std::vector<std::int64_t> merged_;
};

}  // namespace flotilla
