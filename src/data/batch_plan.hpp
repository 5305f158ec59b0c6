// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/tensor.hpp"
#include "src/data/dataset.hpp"
#include "src/data/loader.hpp"
#include "src/data/mixup.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// Tells a data set what will be read next (Dataset::will_read), where the order lets neighbours be read
/// together: with "blocks" the blocks of the next window, each by one reader of the host; with "file" the
/// worker's own samples of as many steps as the buffer holds. Nothing with "shuffled", or where workers have
/// shares of their own.
class ReadAhead {
 public:
  ReadAhead(const Sampler& sampler, std::int64_t worker, const HostReader& reader)
      : sampler_(sampler), worker_(worker), reader_(reader) {}
  /// To be called before the first samples of the step at `position` are read. @param first of the training,
  /// or after a resume: the reader does not know yet what this step needs
  void before_step(const Dataset& data, Position position, bool first) const;

 private:
  void tell_blocks(const Dataset& data, std::int64_t epoch, std::int64_t window) const;
  /// Tells of as many steps as the epoch has from `position` on, at most `steps`.
  void tell_steps(const Dataset& data, Position position, std::int64_t steps) const;

  Sampler sampler_;
  std::int64_t worker_;
  HostReader reader_;
};

/// The samples of a batch, before they are read.
struct Selection {
  std::int64_t valid = 0;       ///< Rows of the batch that count
  std::uint64_t variation = 0;  ///< Variation of the epoch
  PairMix mix{};                ///< Mixing of the step
};

/// Chooses the samples of each batch. Called by several threads at once.
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
