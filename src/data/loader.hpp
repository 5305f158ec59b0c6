// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "kernels/host_batch.hpp"
#include "kernels/layers/softmax_loss.hpp"
#include "kernels/tensor.hpp"
#include "kernels/trace.hpp"
#include "models/embedding_bags.hpp"
#include "src/data/dataset.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// A batch in host memory, valid until LoaderOptions::kept more calls of Loader::next.
struct Batch {
  std::span<float> images;               ///< (batch, sample shape), 64-byte aligned
  ByteImages bytes = {};                 ///< Instead of `images`, where LoaderOptions::bytes asks for it
  std::span<const std::int32_t> labels;  ///< batch values; those of padding rows are 0
  /// (batch, target_width()), instead of labels; those of padding rows are 0. Empty: there are labels
  std::span<const float> target_values = {};
  std::int64_t valid = 0;  ///< Number of valid rows; the rest is padding (validation only)
  /// Mixup: the labels of the samples mixed in, and their share of each row in [0, 1]. Empty: none
  std::span<const std::int32_t> partner_labels = {};
  float partner_share = 0.0F;
  /// Samples that could not be read and were replaced by others, and the lowest number of them
  std::int64_t replaced = 0;
  std::int64_t first_replaced = -1;
  Bags bags = {};  ///< Click data; those of padding rows are empty
  /// With LoaderOptions::keep_bad: rows whose samples cannot be read, which are padded, and why
  std::map<std::int64_t, std::string> bad = {};

  /// The network's input.
  HostBatch input() const { return bytes.pixels.empty() ? HostBatch(images) : HostBatch(bytes); }
  Targets targets() const {
    return {.labels = labels,
            .valid = valid,
            .other_labels = partner_labels,
            .other_share = partner_share,
            .values = target_values};
  }
};

/// Prefetches batches on threads of its own, several of which share a batch of large samples, into buffers
/// made once: no allocation and no lock per batch after the start. The order of the batches and their
/// contents do not depend on the number of threads.
class Loader {
 public:
  virtual ~Loader() = default;
  /// The next batch. Waits until it is filled. @throws the exception of reading it.
  virtual const Batch& next() = 0;
  virtual std::int64_t wait_ns() const = 0;  ///< Time spent waiting in next() so far.
  /// Time that the threads spent reading so far, all together.
  virtual std::int64_t read_ns() const = 0;
  virtual std::int64_t buffer_bytes() const = 0;
};

/// DeviceMemory::pin
using PinMemory = std::function<Storage(std::span<float>)>;

/// This rank among the ranks of its host, which share the host's page cache.
struct HostReader {
  std::int64_t number = 0;
  std::int64_t count = 1;
};

struct LoaderOptions {
  std::int64_t threads = 1;
  std::int64_t prefetch = 4;
  std::int64_t kept = 1;                         ///< Number of the last batches that stay valid
  std::function<trace::Sink*(int thread)> sink;  ///< May be empty
  bool replace_bad = false;                      ///< Training: replaces a sample that throws BadSample
  bool keep_bad = false;                         ///< Outside training: records it in Batch::bad
  double mixup = 0.0;   ///< Training: the parameter of λ ~ Beta(mixup, mixup); 0: off
  double cutmix = 0.0;  ///< Training: the parameter of λ for CutMix; 0: off
  PinMemory pin = {};   ///< Makes copies of batches to the device fast; may be empty
  HostReader reader{};
  bool bytes = false;  ///< For a device that scales them: samples that are bytes stay bytes, unless mixed
};

/// The deck's options, without sinks.
LoaderOptions loader_options(const DataConfig& data);

/// Endless: the worker's micro-batches from `start` on. `data` must outlive it. With mixup or CutMix, rows 2k
/// and 2k + 1 are mixed with each other, with one PairMix for all of a step: f(seed, position), the same on
/// all workers.
std::unique_ptr<Loader> make_training_loader(const Dataset& data, const Sampler& sampler, std::int64_t worker,
                                             Position start, const LoaderOptions& options);

/// The samples of `shard` in order, once; the last batch is padded, with zeros or with bytes of 0. After the
/// last batch next() returns one with valid = 0.
std::unique_ptr<Loader> make_validation_loader(const Dataset& data, ValidationShard shard, std::int64_t batch,
                                               const LoaderOptions& options);

/// Assigns a shard of the samples to each worker, unless each is to have its part of every global batch.
/// @throws UserError if a worker gets no samples
Sharding assign_shards(Sharding sharding, const Dataset& data, ShardBy how);

}  // namespace flotilla
