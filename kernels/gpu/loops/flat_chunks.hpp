// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/flat/chunks.hpp"
#include "kernels/gpu/loops/launch.hpp"
#include "kernels/gpu/loops/plan_scope.hpp"

namespace flotilla::loops {

/// Values of a chunk, at most: many enough that the table lookup costs nothing.
inline constexpr std::int64_t flat_update_values = 4096;
inline constexpr std::int64_t flat_sum_values = 16384;

/// A piece of a range, for one team.
struct FlatChunk {
  std::int64_t begin = 0;
  std::int32_t count = 0;
  std::int32_t range = 0;  ///< Its range's place in the list, where ranges are not merged
  float weight_decay = 0.0F;
  float rate_factor = 1.0F;
  friend bool operator==(const FlatChunk&, const FlatChunk&) = default;
};

/// Waits until `to` is there.
template <class Space, class T>
void copy_to_host(const Space& space, const T* from, std::span<T> to) {
  Queue<Space>::download(space, from, to.data(), to.size_bytes());
  Queue<Space>::wait(space);
}

/// The chunks of a list of ranges, on the device.
template <class Space>
class FlatTable {
 public:
  FlatTable(const Space& space, LoopMemory memory) : space_(space), memory_(std::move(memory)) {}

  /// Cut for an update: neighbours of equal constants are one range.
  const FlatTable& of_updates(std::span<const FlatRange> ranges) {
    if (is_of(ranges)) return *this;
    std::int64_t all = 0;
    for (const FlatRange& range : ranges) all += range.count;
    // A small model is cut into a chunk for each processor of a large GPU.
    const std::int64_t share = (all / large_gpu + team_lanes - 1) / team_lanes * team_lanes;
    const std::int64_t values = std::clamp<std::int64_t>(share, team_lanes, flat_update_values);
    for (std::size_t index = 0; index < ranges.size();) cut(flat::merged(ranges, index), 0, values);
    return uploaded();
  }
  /// The ranges, each cut into chunks of at most `values` values.
  const FlatTable& of_each(std::span<const FlatRange> ranges, std::int64_t values) {
    if (is_of(ranges)) return *this;
    for (std::size_t i = 0; i < ranges.size(); ++i) cut(ranges[i], i, values);
    return uploaded();
  }

  std::int64_t chunks() const { return static_cast<std::int64_t>(chunks_.size()); }
  const FlatChunk* address() const { return address_; }

 private:
  /// Whether the table holds these ranges; if not, it is cleared and the ranges are recorded.
  bool is_of(std::span<const FlatRange> ranges) {
    if (address_ != nullptr && std::ranges::equal(ranges, ranges_)) return true;
    Queue<Space>::wait(space_);  // chunks_ may still be on their way
    ranges_.assign(ranges.begin(), ranges.end());
    chunks_.clear();
    return false;
  }

  void cut(const FlatRange& range, std::size_t number, std::int64_t values) {
    for (std::int64_t begin = 0; begin < range.count; begin += values)
      chunks_.push_back({range.offset + begin,
                         static_cast<std::int32_t>(std::min(values, range.count - begin)),
                         static_cast<std::int32_t>(number), range.weight_decay, range.rate_factor});
  }

  const FlatTable& uploaded() {
    const std::size_t floats = chunks_.size() * sizeof(FlatChunk) / sizeof(float);
    address_ = reinterpret_cast<FlatChunk*>(memory_.floats(floats));
    Queue<Space>::upload(space_, chunks_.data(), address_, chunks_.size() * sizeof(FlatChunk));
    return *this;
  }

  Space space_;
  Scratch memory_;
  std::vector<FlatRange> ranges_;
  std::vector<FlatChunk> chunks_;
  FlatChunk* address_ = nullptr;
};

}  // namespace flotilla::loops
