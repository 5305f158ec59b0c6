// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/sum_tree.hpp"

#include <algorithm>
#include <bit>

namespace flotilla::mpi {

namespace {

constexpr int radix = 4;

/// Neighbours, in most cases a power of two of them. The first `owners` of them own its sum.
struct RankBlock {
  int first = 0;
  int size = 1;
  int owners = 1;
};

/// Each owner passes its slice on to few of the next larger block: where that is much larger, the last levels
/// gather their sums at some of its members instead of cutting them further.
std::vector<RankBlock> blocks_of(int ranks) {
  if (ranks <= radix) return {{0, ranks, ranks}};
  std::vector<RankBlock> blocks;
  for (int first = 0; first < ranks; first += blocks.back().size) {
    const int size = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks - first)));
    blocks.push_back({first, size, size});
  }
  constexpr int enough = 8;
  for (std::size_t b = blocks.size() - 1; b-- > 0;) {
    int owners = radix;
    while (owners < enough * blocks[b + 1].owners) owners *= radix;
    blocks[b].owners = std::min(owners, blocks[b].size);
  }
  return blocks;
}

/// The slice of the member at `position` of `members`. Of a power of two the last bit chooses the half of the
/// array, the bit before it the half of that.
SliceBounds slice_at(std::size_t count, int position, int members) {
  if (!std::has_single_bit(static_cast<unsigned>(members))) return slice_of(0, count, position, members);
  SliceBounds slice{0, count};
  for (int bit = 1; bit < members; bit *= 2)
    slice = slice_of(slice.begin, slice.end - slice.begin, (position & bit) != 0 ? 1 : 0, 2);
  return slice;
}

class StepList {
 public:
  StepList(int ranks, int rank, std::size_t count, Wire wire, std::span<const int> hosts)
      : blocks_(blocks_of(ranks)), ranks_(ranks), rank_(rank), count_(count), wire_(wire), hosts_(hosts) {
    while (rank >= blocks_[own_].first + blocks_[own_].size) ++own_;
    position_ = rank - block().first;
  }

  std::vector<SumStep> steps() {
    for (int stride = 1; stride < block().size; stride *= radix) level(stride, true);
    if (position_ < block().owners) join_blocks();
    if (own_ == 0) gather();
    deliver();
    return std::move(steps_);
  }

 private:
  const RankBlock& block() const { return blocks_[own_]; }

  Wire wire_of(int first, int last) const {
    const auto same = [&](int rank) {
      return hosts_[static_cast<std::size_t>(rank)] == hosts_[static_cast<std::size_t>(first)];
    };
    if (hosts_.empty()) return wire_;
    for (int rank = first; rank < last; ++rank)
      if (!same(rank)) return wire_;
    return Wire::float32;
  }

  /// The members at distances of `stride` exchange, and own slices of what each of them owned before; on the
  /// way back they exchange those.
  void level(int stride, bool up) {
    if (position_ % stride >= block().owners) return;
    const int members = std::min(radix, block().size / stride);
    const int digit = position_ / stride % members;
    const int base = position_ - digit * stride;
    const auto slice = [&](int member) -> SliceBounds {
      if (stride < block().owners) return slice_at(count_, base + member * stride, stride * members);
      return member == 0 ? slice_at(count_, base, block().owners) : SliceBounds{};
    };
    SumStep& step = steps_.emplace_back();
    step.wire = wire_;
    if (up) {
      const int first = block().first + position_ / (stride * members) * (stride * members);
      step.wire = wire_of(first, first + stride * members);
      step.sum = slice(digit);
      if (step.wire != Wire::float32) step.rounded = step.sum;
    }
    // Each begins with the next one, so that not all send to the first.
    for (int ahead = 1; ahead < members; ++ahead) {
      const int other = (digit + ahead) % members;
      step.sends.push_back({block().first + base + other * stride, slice(up ? other : digit)});
    }
    for (int other = 0; other < members; ++other)
      if (other != digit)
        step.receives.push_back({block().first + base + other * stride, slice(up ? digit : other)});
  }

  void join_blocks() {
    if (own_ + 1 < blocks_.size()) {
      const RankBlock& next = blocks_[own_ + 1];
      const SliceBounds mine = slice_at(count_, position_, block().owners);
      steps_.push_back({.sends = {},
                        .receives = {{next.first + position_ % next.owners, mine}},
                        .sum = mine,
                        .wire = wire_of(block().first, ranks_)});
    }
    if (own_ > 0) {
      const RankBlock& before = blocks_[own_ - 1];
      SumStep& step = steps_.emplace_back();
      step.wire = wire_of(before.first, ranks_);
      for (int to = position_; to < before.owners; to += block().owners)
        step.sends.push_back({before.first + to, slice_at(count_, to, before.owners)});
    }
  }

  void gather() {
    if (wire_ != Wire::float32 && position_ < block().owners)
      steps_.push_back({.rounded = slice_at(count_, position_, block().owners), .wire = wire_});
    int stride = 1;
    while (stride * radix < block().size) stride *= radix;
    for (; stride > 0; stride /= radix) level(stride, false);
  }

  /// From the first block to the ranks behind it.
  void deliver() {
    const int many = blocks_.front().size;
    if (ranks_ == many) return;
    const int together = std::min(many, 8);
    SumStep& step = steps_.emplace_back();
    step.wire = wire_;
    const auto slice = [&](int from) { return slice_of(0, count_, from % together, together); };
    const int group = rank_ % many / together * together;
    for (int member = group; member < group + together; ++member) {
      if (own_ > 0) {
        step.receives.push_back({member, slice(member)});
      } else if (many + member < ranks_) {
        step.sends.push_back({many + member, slice(rank_)});
      }
    }
  }

  std::vector<RankBlock> blocks_;
  int ranks_;
  int rank_;
  std::size_t count_;
  Wire wire_;
  std::span<const int> hosts_;
  std::size_t own_ = 0;  ///< This rank's block
  int position_ = 0;     ///< In it
  std::vector<SumStep> steps_;
};

}  // namespace

std::vector<SumStep> sum_steps(int ranks, int rank, std::size_t count, Wire wire,
                               std::span<const int> hosts) {
  return StepList(ranks, rank, count, wire, hosts).steps();
}

std::vector<SumStep> direct_steps(int ranks, int rank, int owners, std::size_t count) {
  const auto slice = [&](int owner) {
    return owner < owners ? slice_of(0, count, owner, owners) : SliceBounds{};
  };
  SumStep scatter{.sum = slice(rank)};
  SumStep gather;
  // Each begins with the next one, so that not all send to the first.
  for (int ahead = 1; ahead < ranks; ++ahead) {
    const int other = (rank + ahead) % ranks;
    scatter.sends.push_back({other, slice(other)});
    gather.sends.push_back({other, slice(rank)});
  }
  for (int other = 0; other < ranks; ++other) {
    if (other == rank) continue;
    scatter.receives.push_back({other, slice(rank)});
    gather.receives.push_back({other, slice(other)});
  }
  return {scatter, gather};
}

}  // namespace flotilla::mpi
