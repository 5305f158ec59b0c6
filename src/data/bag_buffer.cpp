// SPDX-License-Identifier: Apache-2.0
#include "src/data/bag_buffer.hpp"

#include <cstddef>
#include <limits>

#include "kernels/error.hpp"

namespace flotilla {

BagBuffer::BagBuffer(std::int64_t rows, std::int64_t slots, bool weighted) {
  const auto bags = static_cast<std::size_t>(rows * slots);
  ids_.reserve(bags);
  ends_.reserve(bags);
  if (weighted) values_.reserve(bags);
}

void BagBuffer::clear() {
  ids_.clear();
  values_.clear();
  ends_.clear();
}

void BagBuffer::append(const BagBuffer& other) {
  const auto before = static_cast<std::int32_t>(ids_.size());
  ids_.insert(ids_.end(), other.ids_.begin(), other.ids_.end());
  values_.insert(values_.end(), other.values_.begin(), other.values_.end());
  for (const std::int32_t end : other.ends_) ends_.push_back(before + end);
}

Bags BagBuffer::bags() const {
  require(ids_.size() <= std::size_t{std::numeric_limits<std::int32_t>::max()}, "a batch names ", ids_.size(),
          " ids, more than its bags can count");
  return {.ids = ids_, .values = values_, .ends = ends_};
}

std::int64_t BagBuffer::bytes() const {
  return static_cast<std::int64_t>(ids_.capacity() * sizeof(ids_[0]) +
                                   values_.capacity() * sizeof(values_[0]) +
                                   ends_.capacity() * sizeof(ends_[0]));
}

}  // namespace flotilla
