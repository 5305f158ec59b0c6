// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/worker/embedding_pool.hpp"

namespace flotilla {

EmbeddingBagsSpec bags_of(const ModelConfig& model, const Dataset& data, std::int64_t batch) {
  return {.batch = batch,
          .dense = data.sample_shape().size(),
          .slots = data.slots(),
          .width = model.embedding_width};
}

EmbeddingPool::EmbeddingPool(const EmbeddingBagsSpec& spec, bool per_slot)
    : bags_(spec),
      found_(spec.slots, per_slot),
      features_(static_cast<std::size_t>(spec.batch * spec.features())) {}

std::span<const std::uint64_t> EmbeddingPool::find(const Batch& batch) {
  found_.find(batch.bags);
  const std::size_t needed = found_.keys().size() * static_cast<std::size_t>(bags_.spec().width);
  if (rows_.size() < needed) rows_.resize(needed + needed / 4);
  return found_.keys();
}

std::span<float> EmbeddingPool::rows() {
  return {rows_.data(), found_.keys().size() * static_cast<std::size_t>(bags_.spec().width)};
}

std::span<float> EmbeddingPool::forward(const Batch& batch) {
  bags_.forward(batch.images, batch.bags, found_, rows(), features_);
  return features_;
}

void EmbeddingPool::backward(const Batch& batch, std::span<const float> gradient,
                             std::span<float> drows) const {
  bags_.backward(batch.bags, found_, gradient, drows);
}

}  // namespace flotilla
