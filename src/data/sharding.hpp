// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/config/config.hpp"

namespace flotilla {

class ClassSamples;

/// The position of training in the data, counted in samples, so that it does not depend on the number of
/// workers.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t offset = 0;  ///< Samples of the epoch's order already consumed
  friend bool operator==(const Position&, const Position&) = default;
};

/// The division of an epoch into steps.
struct Sharding {
  std::int64_t samples = 0;
  std::int64_t workers = 1;
  std::int64_t batch = 0;  ///< Per worker and micro-step
  std::int64_t micro_steps = 1;
  bool drop_last = false;  ///< False: the last batch wraps around to the start of the epoch's order
  SampleOrder order = SampleOrder::shuffled;
  std::int64_t block = 1;   ///< blocks: neighbouring samples that lie in one block
  std::int64_t buffer = 1;  ///< blocks: samples that are shuffled with each other, a multiple of `block`
  /// The first sample of each worker's share, and the end of the last one. Empty: all workers share every
  /// global batch
  std::vector<std::int64_t> shares{};
  std::shared_ptr<const ClassSamples> classes{};  ///< Null: samples are not balanced

  std::int64_t global_batch() const { return batch * workers * micro_steps; }
  /// The steps of the largest share, in which workers with smaller ones start again; with drop_last, of the
  /// smallest.
  std::int64_t steps_per_epoch() const;
  /// The value of Position::offset after a whole epoch: the number of samples; with shares that of all of its
  /// steps, in which workers with smaller shares start again.
  std::int64_t consumed_per_epoch() const;
  /// Steps from `position`, which may stem from another sharding of the same samples, to the end of `epochs`
  /// epochs.
  std::int64_t steps_until(const Position& position, std::int64_t epochs) const;
  /// Steps from the beginning of training to `position`, had all been of this sharding: 0 at the beginning;
  /// it grows by one with each step from any position.
  std::int64_t steps_before(const Position& position) const;
  /// The number of the epoch's batch that ends at `position`, 1 … steps_per_epoch(): those that remain are
  /// subtracted, so that it grows by one with each step from any position.
  std::int64_t batch_before(const Position& position) const;
  /// Steps that begin in the epoch from `offset` on; with wrapping the last one may be incomplete.
  std::int64_t steps_left(std::int64_t offset) const;
  /// Steps of this sharding that hold the first `offset` samples of an epoch, the last one perhaps in part.
  std::int64_t steps_through(std::int64_t offset) const;
  /// `position`, or the start of the next epoch where its own has no step left.
  Position settled(const Position& position) const;
};

/// @throws UserError if there are more workers than samples, if one step needs more samples than there are,
/// or if a worker has no share.
void check_sharding(const Sharding& sharding);

/// Micro-steps of a worker. @throws UserError if its shards would be no subtree, naming valid worker counts.
std::int64_t shards_per_worker(std::int64_t shards, int workers);

/// The numbers of workers that divide `number`, for messages: "1, 2, 3, 6" of 6.
std::string divisors_of(std::int64_t number);

/// Micro-batches and workers for a deck. @throws UserError if the workers do not divide
/// train.global_batch_size, naming worker counts that do, or if there are fewer samples than a step takes.
Sharding make_sharding(const Config& config, std::int64_t samples, int workers);

}  // namespace flotilla
