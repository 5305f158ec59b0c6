// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/random.hpp"
#include "src/data/clicks/line_format.hpp"

namespace flotilla {

struct SyntheticClicksSpec {
  std::uint64_t seed = 1;
  std::int64_t vocabulary = 100000;  ///< Most categories of a slot
};

/// Synthetic click logs in Criteo's layout, of which the best prediction is known. A line is a pure function
/// of (seed, its number).
///
/// Numbers are log-normal and capped at criteo_cap; t = ln(1 + max(x, 0)) / ln(1 + cap), that of a missing
/// one is 0. The category of slot s is the r-th, r ≥ 1, with a probability that falls as r^−1.5. The score is
///   b + Σ numbers w (t − ½), for every fourth one 4 w (t − ½)²
///     + Σ slots u(s, r), normal with deviation 0.25 for r ≤ 32 and 0 beyond: rare ones have no weight
///     + three products of two numbers, three tables over the first four categories of two slots, and one
///     slope
///       of a number for each of the first four categories of a slot,
/// and the label is 1 with probability 1 / (1 + e^−score); b makes a quarter of them positive.
class SyntheticClicks {
 public:
  struct Truth {
    double probability = 0.0;
    bool label = false;
  };

  explicit SyntheticClicks(const SyntheticClicksSpec& spec);
  /// Appends line i, line feed included.
  Truth write(std::int64_t i, std::string& text) const;

 private:
  static constexpr std::int64_t told = 32;   ///< Categories of a slot with a weight
  static constexpr std::int64_t paired = 4;  ///< Categories of a slot that interact

  /// A row before it is written.
  struct Row {
    std::array<std::int64_t, criteo_numbers> numbers{};
    std::array<bool, criteo_numbers> missing{};
    std::array<double, criteo_numbers> t{};
    std::array<std::int64_t, criteo_categories> ranks{};  ///< Ranks from 1 on
  };
  struct PairOfNumbers {
    std::size_t first = 0;
    std::size_t second = 0;
    double weight = 0.0;
  };
  struct PairOfSlots {
    std::size_t first = 0;
    std::size_t second = 0;
    std::array<double, paired * paired> weights{};
  };

  Row draw(Random& random) const;
  double score(const Row& row) const;
  void find_intercept();

  std::uint64_t seed_;
  std::array<double, criteo_categories> most_{};  ///< 1 − (categories + 1)^−0.5
  std::array<double, criteo_numbers> number_weights_{};
  std::vector<double> category_weights_;  ///< For each slot the weights of its first categories
  std::array<PairOfNumbers, 3> number_pairs_{};
  std::array<PairOfSlots, 3> slot_pairs_{};
  std::array<double, paired> slopes_{};
  double intercept_ = 0.0;
};

/// The metrics of predicting the true probabilities.
class Ceiling {
 public:
  Ceiling();
  void add(const SyntheticClicks::Truth& truth);
  std::int64_t rows() const { return rows_; }
  std::int64_t positive() const { return positive_; }
  double auc() const;       ///< Uses a million bins: exact to about 10^−6. 0.5 if a class is missing.
  double log_loss() const;  ///< Mean of −ln of the label's probability.

 private:
  std::vector<std::int64_t> positives_;
  std::vector<std::int64_t> negatives_;
  std::int64_t rows_ = 0;
  std::int64_t positive_ = 0;
  double loss_ = 0.0;
};

}  // namespace flotilla
