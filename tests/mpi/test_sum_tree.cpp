// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "mpi/all_reduce/sum_arrays.hpp"
#include "mpi/all_reduce/sum_tree.hpp"
#include "tests/support/within.hpp"

namespace flotilla::mpi {
namespace {

using Arrays = std::vector<std::vector<float>>;

std::vector<float> rounded(Wire wire, std::span<const float> values) {
  std::vector<std::byte> bytes(values.size() * bytes_per_value(wire));
  std::vector<float> result(values.size());
  encode(wire, values, bytes.data());
  decode(wire, bytes.data(), result);
  return result;
}

void add_in_order(const std::vector<const float*>& addends, std::span<float> sum) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    float all = addends[0][i];
    for (std::size_t other = 1; other < addends.size(); ++other) all += addends[other][i];
    sum[i] = all;
  }
}

/// All ranks' steps, taken in this process. A rank waits in a step until all that it receives was sent.
class Ranks {
 public:
  Ranks(Arrays arrays, Wire wire, std::vector<int> hosts = {}) : arrays_(std::move(arrays)) {
    const auto ranks = static_cast<int>(arrays_.size());
    for (int rank = 0; rank < ranks; ++rank)
      steps_.push_back(sum_steps(ranks, rank, arrays_[0].size(), wire, hosts));
    done_.resize(arrays_.size());
    sent_.resize(arrays_.size());
    while (std::ranges::any_of(std::views::iota(0, ranks), [&](int rank) { return left(rank); })) {
      bool moved = false;
      for (int rank = 0; rank < ranks; ++rank) moved |= left(rank) && take(rank);
      if (!moved) break;  // they wait for each other
    }
  }

  const Arrays& arrays() const { return arrays_; }
  bool finished() const { return messages_.empty() && done_ == lengths(); }
  std::set<int> partners(int rank) const {
    std::set<int> others;
    for (const SumStep& step : steps_[static_cast<std::size_t>(rank)])
      for (const auto* parts : {&step.sends, &step.receives})
        for (const SumStep::Part& part : *parts)
          if (part.slice.end > part.slice.begin) others.insert(part.rank);
    return others;
  }

 private:
  bool left(int rank) const {
    return done_[static_cast<std::size_t>(rank)] < steps_[static_cast<std::size_t>(rank)].size();
  }
  std::vector<std::size_t> lengths() const {
    std::vector<std::size_t> all;
    for (const auto& steps : steps_) all.push_back(steps.size());
    return all;
  }
  static std::span<float> part(std::vector<float>& array, SliceBounds slice) {
    return std::span(array).subspan(slice.begin, slice.end - slice.begin);
  }

  bool take(int rank) {
    const auto own = static_cast<std::size_t>(rank);
    const SumStep& step = steps_[own][done_[own]];
    std::vector<float>& array = arrays_[own];
    if (!std::exchange(sent_[own], true)) {
      std::ranges::copy(rounded(step.wire, part(array, step.rounded)), part(array, step.rounded).begin());
      for (const SumStep::Part& one : step.sends)
        if (one.slice.end > one.slice.begin)
          messages_[{rank, one.rank}].push_back(rounded(step.wire, part(array, one.slice)));
    }
    const auto is_there = [&](const SumStep::Part& one) {
      return one.slice.end == one.slice.begin || messages_.contains({one.rank, rank});
    };
    if (!std::ranges::all_of(step.receives, is_there)) return false;
    std::map<int, std::vector<float>> arrived;
    for (const SumStep::Part& one : step.receives) {
      if (one.slice.end == one.slice.begin) continue;
      auto& queue = messages_[{one.rank, rank}];
      arrived[one.rank] = queue.front();
      queue.erase(queue.begin());
      if (queue.empty()) messages_.erase({one.rank, rank});
      if (step.sum.end == step.sum.begin)
        std::ranges::copy(arrived[one.rank], part(array, one.slice).begin());
    }
    if (step.sum.end > step.sum.begin) {
      const std::span<float> sum = part(array, step.sum);
      arrived[rank].assign(sum.begin(), sum.end());
      std::vector<const float*> addends;
      for (const auto& [from, values] : arrived) addends.push_back(values.data());
      if (step.wire == Wire::float32) {
        sum_to(sum.data(), addends, sum.size());
      } else {
        add_in_order(addends, sum);
      }
    }
    ++done_[own];
    sent_[own] = false;
    return true;
  }

  Arrays arrays_;
  std::vector<std::vector<SumStep>> steps_;
  std::vector<std::size_t> done_;
  std::vector<char> sent_;
  std::map<std::pair<int, int>, std::vector<std::vector<float>>> messages_;
};

/// Values of every size and sign whose sum depends on the order.
Arrays arrays_of(int ranks, std::size_t count) {
  Arrays arrays(static_cast<std::size_t>(ranks));
  for (std::size_t rank = 0; rank < arrays.size(); ++rank)
    for (std::size_t i = 0; i < count; ++i)
      arrays[rank].push_back(std::sin(static_cast<float>(i * 3 + rank * 7 + 1)) *
                             std::exp2(static_cast<float>((i + rank) % 9)));
  return arrays;
}

const std::vector<int> numbers = {1,   2,   3,   4,   5,   6,   7,   8,    9,    11,  12,
                                  13,  16,  17,  24,  31,  32,  33,  48,   64,   65,  96,
                                  100, 128, 129, 255, 257, 511, 512, 1000, 1023, 1024};

TEST(SumTree, AddsInTheOrderOfTheTree) {
  for (const int ranks : numbers) {
    for (const std::size_t count : {1U, 40U, 1100U}) {
      if (ranks > 300 && count > 100) continue;
      const Arrays arrays = arrays_of(ranks, count);
      std::vector<const float*> addends;
      for (const auto& array : arrays) addends.push_back(array.data());
      std::vector<float> expected(count);
      sum_to(expected.data(), addends, count);

      const Ranks summed(arrays, Wire::float32);

      ASSERT_TRUE(summed.finished()) << ranks;
      for (const auto& array : summed.arrays()) ASSERT_EQ(array, expected) << ranks << " ranks";
    }
  }
}

TEST(SumTree, HasFewPartners) {
  for (const int ranks : numbers) {
    const Ranks summed(arrays_of(ranks, ranks > 300 ? 20'000 : 2'000), Wire::float32);
    const int fours = (std::bit_width(static_cast<unsigned>(ranks - 1)) + 1) / 2;
    const bool power_of_two = std::has_single_bit(static_cast<unsigned>(ranks));
    for (int rank = 0; rank < ranks; ++rank)
      ASSERT_LE(summed.partners(rank).size(), static_cast<std::size_t>(3 * fours + (power_of_two ? 0 : 25)))
          << "rank " << rank << " of " << ranks;
  }
}

/// Hosts of so many neighbours.
std::vector<int> hosts_of(int ranks, int together) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / together);
  return hosts;
}

/// The largest error of a half wire, in Σ|x| · u, and the number of different results of all ranks.
double error_in_roundings(int ranks, Wire wire, const std::vector<int>& hosts) {
  constexpr std::size_t count = 200;
  const Arrays arrays = arrays_of(ranks, count);
  const Ranks summed(arrays, wire, hosts);
  EXPECT_TRUE(summed.finished());
  const double unit = wire == Wire::float16 ? 0x1p-11 : 0x1p-8;
  double largest = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    double exact = 0.0;
    double sizes = 0.0;
    for (const auto& array : arrays) {
      exact += double{array[i]};
      sizes += std::abs(double{array[i]});
    }
    largest = std::max(largest, std::abs(double{summed.arrays()[0][i]} - exact) / (sizes * unit));
  }
  for (const auto& array : summed.arrays()) EXPECT_EQ(array, summed.arrays()[0]) << ranks << " ranks";
  return largest;
}

// The bounds that sum_tree.hpp and docs/architecture.md state; (1 + u)ⁿ − 1 and the roundings of float fit
// into the tenth.
TEST(SumTree, AHalfWireLosesAsMuchAsStated) {
  for (const Wire wire : {Wire::float16, Wire::bfloat16}) {
    EXPECT_LE(error_in_roundings(1024, wire, {}), 6.1);
    EXPECT_LE(error_in_roundings(1024, wire, hosts_of(1024, 64)), 3.1) << "levels inside hosts are in float";
    EXPECT_LE(error_in_roundings(1000, wire, {}), 11.1);
    EXPECT_LE(error_in_roundings(4, wire, {}), 2.1);
  }
}

// Blocks of 16 neighbours of one host are added in float; the last level is of two hosts.
TEST(SumTree, InsideHostsNothingIsRounded) {
  const Arrays arrays = arrays_of(64, 50);
  std::vector<float> expected(50);
  Arrays blocks;
  for (std::size_t block = 0; block < 64; block += 16) {
    std::vector<const float*> addends;
    for (std::size_t rank = block; rank < block + 16; ++rank) addends.push_back(arrays[rank].data());
    std::vector<float> sum(50);
    sum_to(sum.data(), addends, sum.size());
    blocks.push_back(rounded(Wire::bfloat16, sum));
  }
  std::vector<const float*> addends;
  for (const auto& block : blocks) addends.push_back(block.data());
  add_in_order(addends, expected);

  EXPECT_EQ(Ranks(arrays, Wire::bfloat16, hosts_of(64, 32)).arrays()[0], rounded(Wire::bfloat16, expected));
}

}  // namespace
}  // namespace flotilla::mpi
