// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/synthetic_clicks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Shares of missing numbers and counts of categories much like those of Criteo's challenge.
constexpr std::array<double, criteo_numbers> missing_share = {0.45, 0,    0.2,  0.2,  0.03, 0.2, 0.04,
                                                              0,    0.04, 0.45, 0.04, 0.75, 0.2};
constexpr std::array<std::int64_t, criteo_categories> vocabularies = {
    1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
    27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572};

constexpr double spread = 1.2;          // Deviation of a number's logarithm
constexpr double ninety_fifth = 1.645;  // Deviations from the median to the 95th percentile
constexpr double category_deviation = 0.25;
constexpr double pair_deviation = 0.1;
constexpr double slope_deviation = 0.3;
constexpr double positive_share = 0.25;
constexpr std::int64_t calibration_rows = 20000;
constexpr std::int64_t calibration_begin = std::int64_t{1} << 62;  // Far beyond all rows that are written
constexpr std::size_t bins = std::size_t{1} << 20;

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

/// A mixing of 32 bits that maps no two to one (the finalizer of MurmurHash3).
std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16U;
  x *= 0x85EBCA6BU;
  x ^= x >> 13U;
  x *= 0xC2B2AE35U;
  return x ^ (x >> 16U);
}

/// In every third slot the second category is the missing one.
bool is_missing(std::size_t slot, std::int64_t rank) {
  return slot % 3 == 2 && rank == 2;
}

void append_category(std::size_t slot, std::int64_t rank, std::string& text) {
  static constexpr const char* digits = "0123456789abcdef";
  const std::uint32_t name =
      mixed(static_cast<std::uint32_t>(rank) + 0x9E3779B9U * static_cast<std::uint32_t>(slot));
  for (unsigned shift = 32; shift > 0; shift -= 4) text += digits[(name >> (shift - 4)) & 15U];
}

}  // namespace

SyntheticClicks::SyntheticClicks(const SyntheticClicksSpec& spec) : seed_(spec.seed) {
  require(spec.vocabulary > 0 && spec.vocabulary <= 0xFFFFFFFF, "no vocabulary of ", spec.vocabulary);
  for (std::size_t slot = 0; slot < vocabularies.size(); ++slot) {
    const std::int64_t categories = std::min(vocabularies[slot], spec.vocabulary);
    most_[slot] = 1.0 - 1.0 / std::sqrt(static_cast<double>(categories + 1));
  }
  Random random(seed_, random_weights);
  for (double& weight : number_weights_)
    weight = (random.uniform() < 0.5 ? -1.0 : 1.0) * (0.4 + random.uniform());
  for (std::int64_t k = 0; k < criteo_categories * told; ++k)
    category_weights_.push_back(category_deviation * random.normal());
  number_pairs_ = {{{0, 4, 0.7}, {2, 6, -0.7}, {7, 10, 0.7}}};
  // Slots of few categories and of many.
  slot_pairs_ = {{{5, 8, {}}, {16, 19, {}}, {2, 9, {}}}};
  for (PairOfSlots& pair : slot_pairs_)
    for (double& weight : pair.weights) weight = pair_deviation * random.normal();
  for (double& slope : slopes_) slope = slope_deviation * random.normal();
  find_intercept();
}

SyntheticClicks::Row SyntheticClicks::draw(Random& random) const {
  Row row;
  for (std::size_t k = 0; k < row.numbers.size(); ++k) {
    row.missing[k] = random.uniform() < missing_share[k];
    const double deviate = random.normal();
    if (row.missing[k]) continue;
    const double cap = criteo_cap[k];
    const double x = std::exp(std::log(cap) + spread * (deviate - ninety_fifth));
    row.numbers[k] = static_cast<std::int64_t>(std::floor(std::min(x + criteo_least[k], cap)));
    row.t[k] = std::log1p(static_cast<double>(std::max<std::int64_t>(row.numbers[k], 0))) / std::log1p(cap);
  }
  for (std::size_t slot = 0; slot < row.ranks.size(); ++slot) {
    // The integral of r^−1.5 from 1 to categories + 1, turned round: 1 / x² is the place that a share of it
    // ends.
    const double x = 1.0 - random.uniform() * most_[slot];
    row.ranks[slot] = static_cast<std::int64_t>(1.0 / (x * x));
  }
  return row;
}

double SyntheticClicks::score(const Row& row) const {
  double sum = 0.0;
  for (std::size_t k = 0; k < row.t.size(); ++k) {
    const double t = row.t[k] - 0.5;
    sum += number_weights_[k] * (k % 4 == 3 ? 4.0 * t * t : t);
  }
  for (std::size_t slot = 0; slot < row.ranks.size(); ++slot) {
    if (row.ranks[slot] <= told)
      sum += category_weights_[slot * told + static_cast<std::size_t>(row.ranks[slot] - 1)];
  }
  for (const PairOfNumbers& pair : number_pairs_)
    sum += pair.weight * (row.t[pair.first] - 0.5) * (row.t[pair.second] - 0.5);
  for (const PairOfSlots& pair : slot_pairs_) {
    const std::int64_t first = row.ranks[pair.first] - 1;
    const std::int64_t second = row.ranks[pair.second] - 1;
    if (first < paired && second < paired)
      sum += pair.weights[static_cast<std::size_t>(first * paired + second)];
  }
  if (row.ranks[0] <= paired) sum += slopes_[static_cast<std::size_t>(row.ranks[0] - 1)] * (row.t[8] - 0.5);
  return sum;
}

void SyntheticClicks::find_intercept() {
  std::vector<double> scores;
  for (std::int64_t k = 0; k < calibration_rows; ++k) {
    Random random(seed_, random_data, static_cast<std::uint64_t>(calibration_begin + k));
    scores.push_back(score(draw(random)));
  }
  double low = -50.0;
  double high = 50.0;
  for (int halving = 0; halving < 60; ++halving) {
    intercept_ = 0.5 * (low + high);
    double sum = 0.0;
    for (const double value : scores) sum += sigmoid(value + intercept_);
    (sum < positive_share * static_cast<double>(calibration_rows) ? low : high) = intercept_;
  }
}

SyntheticClicks::Truth SyntheticClicks::write(std::int64_t i, std::string& text) const {
  Random random(seed_, random_data, static_cast<std::uint64_t>(i));
  const Row row = draw(random);
  const double probability = sigmoid(score(row) + intercept_);
  const bool label = random.uniform() < probability;
  text += label ? '1' : '0';
  for (std::size_t k = 0; k < row.numbers.size(); ++k) {
    text += '\t';
    if (!row.missing[k]) {
      const fmt::format_int digits(row.numbers[k]);
      text.append(digits.data(), digits.size());
    }
  }
  for (std::size_t slot = 0; slot < row.ranks.size(); ++slot) {
    text += '\t';
    if (!is_missing(slot, row.ranks[slot])) append_category(slot, row.ranks[slot], text);
  }
  text += '\n';
  return {.probability = probability, .label = label};
}

Ceiling::Ceiling() : positives_(bins), negatives_(bins) {}

void Ceiling::add(const SyntheticClicks::Truth& truth) {
  const auto bin =
      std::min(static_cast<std::size_t>(truth.probability * static_cast<double>(bins)), bins - 1);
  ++(truth.label ? positives_ : negatives_)[bin];
  ++rows_;
  if (truth.label) ++positive_;
  loss_ -= std::log(truth.label ? truth.probability : 1.0 - truth.probability);
}

double Ceiling::auc() const {
  const std::int64_t negative = rows_ - positive_;
  if (positive_ == 0 || negative == 0) return 0.5;
  double area = 0.0;
  double above = 0.0;  // Positives of a higher bin; those of the same bin count half
  for (std::size_t bin = bins; bin > 0; --bin) {
    const auto here = static_cast<double>(positives_[bin - 1]);
    area += static_cast<double>(negatives_[bin - 1]) * (above + 0.5 * here);
    above += here;
  }
  return area / (static_cast<double>(positive_) * static_cast<double>(negative));
}

double Ceiling::log_loss() const {
  return rows_ == 0 ? 0.0 : loss_ / static_cast<double>(rows_);
}

}  // namespace flotilla
