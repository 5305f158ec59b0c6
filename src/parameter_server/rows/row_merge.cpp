// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/rows/row_merge.hpp"

#include <algorithm>
#include <bit>

#include "kernels/row_update.hpp"

namespace flotilla {

namespace {

constexpr std::uint32_t alone = 0xFFFFFFFFU;

}  // namespace

void RowMerge::begin(std::size_t width, std::size_t at_most) {
  width_ = width;
  rows_.clear();
  gradients_.clear();
  sum_of_.clear();
  sums_.clear();
  values_.clear();
  const std::size_t places = std::bit_ceil(std::max<std::size_t>(2 * at_most, 16));
  if (places > seen_.size()) {
    seen_.assign(places, {});
    request_ = 0;
  }
  shift_ = 33 - static_cast<int>(std::bit_width(seen_.size()));
  if (++request_ == 0) {
    std::ranges::fill(seen_, Seen{});
    request_ = 1;
  }
}

void RowMerge::add(std::uint32_t number, float* row, const float* gradient) {
  // Numbers follow one another: a multiplication (Knuth's) scatters them.
  std::size_t place = shift_ < 32 ? (number * 2654435769U) >> shift_ : 0;
  while (seen_[place].request == request_ && seen_[place].number != number)
    if (++place == seen_.size()) place = 0;
  Seen& seen = seen_[place];
  if (seen.request != request_) {
    seen = {.request = request_, .number = number, .entry = static_cast<std::uint32_t>(rows_.size())};
    rows_.push_back(row);
    gradients_.push_back(gradient);
    sum_of_.push_back(alone);
    return;
  }
  std::uint32_t& sum = sum_of_[seen.entry];
  if (sum == alone) {
    sum = static_cast<std::uint32_t>(sums_.size());
    sums_.push_back({.entry = seen.entry, .terms = 1});
    const float* const first = gradients_[seen.entry];
    values_.insert(values_.end(), first, first + width_);
  }
  ++sums_[sum].terms;
  float* const to = values_.data() + sum * width_;
  for (std::size_t i = 0; i < width_; ++i) to[i] += gradient[i];
}

std::size_t RowMerge::finish() {
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Sum& sum = sums_[i];
    const float* const values = values_.data() + i * width_;
    gradients_[sum.entry] = finite({values, width_}) ? values : nullptr;
    if (gradients_[sum.entry] == nullptr) left_out += sum.terms;
  }
  if (left_out > 0) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (gradients_[i] == nullptr) continue;
      rows_[kept] = rows_[i];
      gradients_[kept++] = gradients_[i];
    }
    rows_.resize(kept);
    gradients_.resize(kept);
  }
  return left_out;
}

}  // namespace flotilla
