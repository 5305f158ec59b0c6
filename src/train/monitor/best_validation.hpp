// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/observe/metrics.hpp"
#include "src/observe/reporter.hpp"

namespace flotilla {

/// The best of a run's validations so far, by checkpoint.best, or where that is "none" by accuracy_top1, of
/// clicks by auc, of numbers by r2, of labels that are 0 or 1 by accuracy. The figures are those of the
/// averaged weights where there are any.
class BestValidation {
 public:
  /// @param numbers numbers() when the run was saved; empty: it begins
  BestValidation(const Config& config, const std::map<std::string, double>& numbers);

  double figure(const ValidationReport& report) const;  ///< The figure by which validations are compared
  /// Compares a validation, unless that of its step was compared before.
  /// @param figure equal on all workers @returns whether it is one of the best checkpoint.keep_best so far
  bool add(double figure, const ValidationReport& report);
  void put_into(ValidationReport& report) const;  ///< The best, if there is one
  bool less_is_better() const { return metric_.less_is_better; }
  bool is_known() const { return !kept_.empty(); }
  /// Steps of the best validations, the best one first.
  std::vector<std::int64_t> steps() const;
  /// Whether the last train.patience validations were not better than the best before them.
  bool out_of_patience() const { return patience_ > 0 && waited_ >= patience_; }
  bool reached_target() const;  ///< Whether the best is at least train.target, of a loss or rmse at most
  /// "accuracy_top1 0.91250 at step 410"
  std::string text() const;
  /// For a checkpoint's numbers.
  std::map<std::string, double> numbers() const;

 private:
  bool is_better(double value, double than) const;

  const Metric& metric_;
  std::int64_t patience_;
  double target_;
  struct Kept {
    double value = 0.0;
    std::int64_t step = -1;
  };
  std::size_t max_kept_;
  std::vector<Kept> kept_;      ///< The best, from the best one on
  std::int64_t epoch_ = 0;      ///< Epoch of the best one
  std::int64_t waited_ = 0;     ///< Validations since the best
  std::int64_t compared_ = -1;  ///< Step of the last validation
};

}  // namespace flotilla
