// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/line_index.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

LineIndex::LineIndex(std::size_t most_entries) : most_entries_(std::max<std::size_t>(most_entries, 1)) {}

void LineIndex::add(std::int64_t begin) {
  if (size_ % stride_ == 0 && begins_.size() == most_entries_) {
    // Drops every second entry.
    const std::size_t kept = (begins_.size() + 1) / 2;
    for (std::size_t k = 0; k < kept; ++k) begins_[k] = begins_[2 * k];
    begins_.resize(kept);
    stride_ *= 2;
  }
  if (size_ % stride_ == 0) begins_.push_back(begin);
  ++size_;
}

std::int64_t LineIndex::sample_at(std::int64_t byte) const {
  const auto behind = std::upper_bound(begins_.begin(), begins_.end(), byte);
  return std::max<std::int64_t>(behind - begins_.begin() - 1, 0) * stride_;
}

LineIndex::Entry LineIndex::before(std::int64_t sample) const {
  require(0 <= sample && sample < size_, "no sample ", sample, " in a file of ", size_);
  const auto k = static_cast<std::size_t>(sample / stride_);
  const std::int64_t next = k + 1 < begins_.size() ? begins_[k + 1] : end_;
  return {.sample = sample / stride_ * stride_, .begin = begins_[k], .bytes = next - begins_[k]};
}

}  // namespace flotilla
