// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/reproducible.hpp"

#include <bit>
#include <string>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

bool has_bit(std::int64_t number, std::size_t bit) {
  return ((number >> bit) & 1) != 0;
}

}  // namespace

ShardSums::ShardSums(Device& device, DeviceSpan<float> values, std::int64_t shards)
    : flat_(device.flat()), values_(values), shards_(shards) {
  const auto digits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(shards - 1)));
  for (int digit = 0; digit < digits; ++digit) partial_.push_back(device.memory().allocate(values.size()));
}

void ShardSums::keep(std::int64_t shard) {
  std::size_t level = 0;
  for (; has_bit(shard, level); ++level) flat_.axpy(1.0F, partial_[level].span(), values_);
  flat_.copy(values_, partial_[level].span());
}

void ShardSums::finish(std::int64_t begin, std::int64_t end) {
  const auto at = static_cast<std::size_t>(begin);
  const auto count = static_cast<std::size_t>(end - begin);
  for (std::size_t level = 0; level < partial_.size(); ++level)
    if (has_bit(shards_ - 1, level))
      flat_.axpy(1.0F, partial_[level].span().subspan(at, count), values_.subspan(at, count));
}

std::int64_t ShardSums::bytes() const {
  std::int64_t sum = 0;
  for (const Storage& storage : partial_)
    sum += static_cast<std::int64_t>(storage.span().size() * sizeof(float));
  return sum;
}

}  // namespace flotilla
