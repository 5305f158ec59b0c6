// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/observe/metrics.hpp"

namespace flotilla {

/// Figures of a classifier that weight all classes equally, whatever their sizes: macro_f1,
/// balanced_accuracy, and up to max_classes_of_auc classes roc_auc and roc_auc_bound. Everything is counted
/// in integers, so that the counts of several workers add up to exactly those of one that saw all samples.
class ClassCounts {
 public:
  static constexpr std::int64_t max_classes_of_auc = 1000;
  static constexpr std::size_t max_bins = 4096;      ///< Bins for a class's probabilities
  static constexpr std::size_t max_cells = 1 << 21;  ///< Over all classes, two a bin

  explicit ClassCounts(std::int64_t classes);

  /// Rows of a logit for each class, and their labels. Allocates nothing.
  void add(std::span<const float> logits, std::span<const std::int32_t> labels);
  /// Collective. Adds up the counts of all workers.
  void merge(const mpi::Communicator& workers);
  /// macro_f1: mean of 2 TP / (2 TP + FP + FN) over the classes that are labels or predictions.
  /// balanced_accuracy: mean recall of the classes that are labels. roc_auc: mean area of a class's softmax
  /// probability against all other samples, over the classes that are labels of some samples and not of all,
  /// and roc_auc_bound the mean of auc_bound_of(). These are scikit-learn's f1_score(average="macro"),
  /// balanced_accuracy_score and roc_auc_score(multi_class="ovr"). All are NaN if a logit was.
  Figures metrics() const;

 private:
  std::size_t classes_;
  std::size_t bins_;  ///< 0: no areas
  std::vector<double> exponentials_;
  /// Rows that are not numbers; of each class its samples, predictions and hits; its cells, as click_cell()
  /// has them
  std::vector<std::int64_t> counts_;
};

}  // namespace flotilla
