// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/random.hpp"
#include "src/config/choices.hpp"

namespace flotilla {

/// `count` samples from number `first` on.
struct SampleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

/// How the samples of an epoch are put into an order.
struct OrderSpec {
  SampleOrder order = SampleOrder::shuffled;
  std::int64_t block = 1;   ///< blocks: neighbouring samples that lie in one block
  std::int64_t buffer = 1;  ///< blocks: samples that are shuffled with each other, a multiple of `block`
};

/// The order of an epoch's samples, a pure function of (seed, epoch, samples, spec), in constant memory.
/// "shuffled": one permutation. "file": that of the data. "blocks": the blocks of `block` neighbours are
/// permuted, a shorter last one stays behind them; then each window of `buffer` positions is permuted in
/// itself. So a window's samples come from buffer ÷ block blocks, each of which can be read at once, and no
/// other window needs them.
class EpochOrder {
 public:
  EpochOrder(std::uint64_t seed, std::int64_t epoch, std::int64_t samples, const OrderSpec& spec);

  /// The number of the sample at `position`, 0 … samples − 1. Fast where the last call was for the same
  /// window.
  std::int64_t sample(std::int64_t position);
  /// With "blocks": windows of the epoch.
  std::int64_t windows() const { return (samples_ + spec_.buffer - 1) / spec_.buffer; }
  /// With "blocks": the number of blocks of a window.
  std::int64_t blocks(std::int64_t window) const;
  /// With "blocks": one of the blocks of a window, which stand in an order of no meaning.
  SampleRange block(std::int64_t window, std::int64_t number) const;

 private:
  /// The sample at a position before windows are permuted.
  std::int64_t in_blocks(std::int64_t position) const;

  std::uint64_t seed_;
  std::int64_t epoch_;
  std::int64_t samples_;
  OrderSpec spec_;
  std::optional<Permutation> permutation_;  ///< Of all samples, or of all whole blocks
  std::int64_t window_ = -1;                ///< That of window_order_; −1: none
  std::optional<Permutation> window_order_;
};

}  // namespace flotilla
