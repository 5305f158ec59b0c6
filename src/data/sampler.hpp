// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/random.hpp"
#include "src/config/data_config.hpp"
#include "src/data/sharding.hpp"

namespace flotilla {

/// `count` samples from number `first` on.
struct SampleRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const SampleRange&, const SampleRange&) = default;
};

/// The order of an epoch's samples.
struct OrderSpec {
  SampleOrder order = SampleOrder::shuffled;
  std::int64_t block = 1;   ///< blocks: neighbouring samples that lie in one block
  std::int64_t buffer = 1;  ///< blocks: samples that are shuffled with each other, a multiple of `block`
};

/// The samples of each class that occurs, for data.order = "balanced".
class ClassSamples {
 public:
  /// @param labels of all samples; 0, 1, …
  explicit ClassSamples(std::span<const std::int32_t> labels);

  std::int64_t classes() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  /// The samples of the class with this number among those that occur.
  std::span<const std::int64_t> of(std::int64_t number) const;

 private:
  std::vector<std::int64_t> samples_;  ///< By class
  std::vector<std::int64_t> begins_;   ///< Begin of each class in samples_, and the end
};

/// The order of an epoch's samples, a pure function of (seed, epoch, samples, spec), in constant memory.
/// "shuffled": one permutation. "file": that of the data. "blocks": the blocks of `block` neighbours are
/// permuted, a shorter last one stays after them; then the positions within each window of `buffer` are
/// permuted. So a window's samples come from buffer ÷ block blocks, each of which can be read at once, and no
/// other window needs them. With classes: position p takes a sample of the class p mod C of round p ÷ C, in
/// each of which the C classes are permuted; the n samples of a class are taken in n rounds, permuted again
/// for the next n.
class EpochOrder {
 public:
  EpochOrder(std::uint64_t seed, std::int64_t epoch, std::int64_t samples, const OrderSpec& spec);
  EpochOrder(std::uint64_t seed, std::int64_t epoch, std::shared_ptr<const ClassSamples> classes);

  /// The number of the sample at `position`, 0 … samples − 1. Fast where the last call was for the same
  /// window.
  std::int64_t sample(std::int64_t position);
  /// With "blocks": windows of the epoch.
  std::int64_t windows() const { return (samples_ + spec_.buffer - 1) / spec_.buffer; }
  /// With "blocks": the number of blocks of a window.
  std::int64_t blocks(std::int64_t window) const;
  /// With "blocks": one of the blocks of a window, in arbitrary order.
  SampleRange block(std::int64_t window, std::int64_t number) const;

 private:
  /// The sample at a position before windows are permuted.
  std::int64_t in_blocks(std::int64_t position) const;
  std::int64_t balanced(std::int64_t position);

  std::uint64_t seed_;
  std::int64_t epoch_;
  std::int64_t samples_;
  OrderSpec spec_;
  std::optional<Permutation> permutation_;  ///< Permutation of all samples, or of all whole blocks
  std::int64_t window_ = -1;                ///< Window of window_order_; −1: none
  std::optional<Permutation> window_order_;
  std::shared_ptr<const ClassSamples> classes_;  ///< Null: not balanced. A window is a round
};

/// Chooses the samples that a worker trains on: a pure function of (seed, position, worker), with equal step
/// counts on all workers by construction. An EpochOrder puts all samples into an order; a step takes the next
/// global batch of it, of which worker w takes the contiguous part w and micro-step m the contiguous part m
/// of that. With shares each worker has an order of its own samples instead, of which a step takes the next
/// batch.
class Sampler {
 public:
  /// @throws UserError as check_sharding does.
  Sampler(std::uint64_t seed, const Sharding& sharding);
  const Sharding& sharding() const { return sharding_; }
  /// The order of an epoch; with shares, that of a share of `samples` samples.
  EpochOrder order(std::int64_t epoch, std::int64_t samples) const;
  /// The position after `steps` steps. `position` may stem from another sharding of the same samples; where
  /// its epoch has no step left (drop_last), counting starts at the next epoch.
  Position after(Position position, std::int64_t steps = 1) const;
  /// The random key of an epoch's augmentations, mixed from (seed, epoch); Loader mixes in the sample.
  std::uint64_t variation(std::int64_t epoch) const;
  /// The sample numbers of one micro-step of one worker, from row `first` of its batch on, as many as `out`
  /// holds.
  void indices(Position position, std::int64_t worker, std::int64_t micro_step, std::span<std::int64_t> out,
               std::int64_t first = 0) const;
  /// The sample that replaces one that cannot be read, at the given attempt (0, 1 …): f(seed, sample,
  /// attempt).
  std::int64_t substitute(std::int64_t sample, std::int64_t attempt) const;

 private:
  std::uint64_t seed_;
  Sharding sharding_;
};

/// The part of a validation set that a worker evaluates: each sample exactly once over all workers, whatever
/// their count.
struct ValidationShard {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
ValidationShard validation_shard(std::int64_t samples, std::int64_t workers, std::int64_t worker);

}  // namespace flotilla
