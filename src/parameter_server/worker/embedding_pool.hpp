// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/batch_rows.hpp"
#include "models/embedding_bags.hpp"
#include "src/config/config.hpp"
#include "src/data/dataset.hpp"
#include "src/data/loader.hpp"

namespace flotilla {

/// The bags of a deck's model over batches of a set of click data.
EmbeddingBagsSpec bags_of(const ModelConfig& model, const Dataset& data, std::int64_t batch);

/// Turns a batch of click data into the network's input: finds the rows it needs, holds them, and pools them.
/// Allocates only for batches larger than all before.
class EmbeddingPool {
 public:
  /// @param per_slot an id has a row for each slot
  EmbeddingPool(const EmbeddingBagsSpec& spec, bool per_slot);

  /// Finds the rows of a batch. @returns their keys
  std::span<const std::uint64_t> find(const Batch& batch);
  std::span<const std::uint64_t> keys() const { return found_.keys(); }
  /// The buffer for the rows of the batch of find(): (keys, width)
  std::span<float> rows();
  /// The network's input for that batch, whose rows are in rows(); valid until the next one.
  std::span<float> forward(const Batch& batch);
  /// @param gradient of the input @param drows (keys, width): of the rows, overwritten
  void backward(const Batch& batch, std::span<const float> gradient, std::span<float> drows) const;

 private:
  EmbeddingBags bags_;
  BatchRows found_;
  std::vector<float> rows_;  ///< At least rows()
  std::vector<float> features_;
};

}  // namespace flotilla
