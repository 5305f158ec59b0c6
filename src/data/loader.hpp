// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/trace.hpp"
#include "src/data/dataset.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// A batch in host memory, valid until the next call of Loader::next.
struct Batch {
  std::span<float> images;               ///< (batch, sample shape), 64-byte aligned
  std::span<const std::int32_t> labels;  ///< batch values; those of padding rows are 0
  std::int64_t valid = 0;                ///< Rows that count; the rest is padding (validation only)
};

/// Reads batches ahead on threads of its own, into buffers made once: no allocation and no lock per batch
/// after the start. The order of the batches and their contents do not depend on the number of threads.
class Loader {
 public:
  virtual ~Loader() = default;
  /// The next batch. Waits if it is not there yet. @throws what reading it threw.
  virtual const Batch& next() = 0;
  virtual std::int64_t wait_ns() const = 0;  ///< Time spent waiting in next() so far.
  virtual std::int64_t buffer_bytes() const = 0;
};

struct LoaderOptions {
  std::int64_t threads = 1;
  std::int64_t prefetch = 4;
  std::function<trace::Sink*(int thread)> sink;  ///< May be empty
};

/// The deck's threads and prefetch, without sinks.
LoaderOptions loader_options(const DataConfig& data);

/// Endless: the worker's micro-batches from `start` on. `data` must outlive it.
std::unique_ptr<Loader> make_training_loader(const Dataset& data, const Sampler& sampler, std::int64_t worker,
                                             Position start, const LoaderOptions& options);

/// The samples of `shard` in order, once; the last batch is padded with copies of its last sample. After the
/// last batch next() returns one with valid = 0.
std::unique_ptr<Loader> make_validation_loader(const Dataset& data, ValidationShard shard, std::int64_t batch,
                                               const LoaderOptions& options);

}  // namespace flotilla
