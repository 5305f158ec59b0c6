// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/tensor.hpp"
#include "src/data/loader.hpp"
#include "src/data/mixup.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// What is known of a batch before its samples are read.
struct Selection {
  std::int64_t valid = 0;       ///< Rows of the batch that count
  std::uint64_t variation = 0;  ///< Of the epoch
  PairMix mix{};                ///< Of the step
};

/// Which samples make up the batches. Called by several threads at once.
class BatchPlan {
 public:
  virtual ~BatchPlan() = default;
  virtual std::int64_t batches() const = 0;
  virtual std::int64_t batch() const = 0;
  virtual bool mixes() const { return false; }
  /// Tells the data set what will be read after batch `number`.
  virtual void announce(std::int64_t /*number*/, const Dataset& /*data*/) const {}
  /// Fills `samples` with the sample numbers of a batch from row `first` on.
  virtual Selection select(std::int64_t number, std::int64_t first,
                           std::span<std::int64_t> samples) const = 0;
  /// The sample to read instead of a bad one, at each attempt another; −1: there is none.
  virtual std::int64_t substitute(std::int64_t /*sample*/, std::int64_t /*attempt*/) const { return -1; }
};

/// The worker's micro-batches from `start` on, without end.
std::unique_ptr<const BatchPlan> make_training_plan(const Sampler& sampler, const Shape& sample,
                                                    std::int64_t worker, Position start,
                                                    const LoaderOptions& options);

/// The samples of `shard`, once, in batches of `batch` rows.
std::unique_ptr<const BatchPlan> make_validation_plan(ValidationShard shard, std::int64_t batch);

}  // namespace flotilla
