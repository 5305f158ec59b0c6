// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "models/bags.hpp"
#include "models/batch_rows.hpp"

namespace flotilla {

/// The network's input for a batch of click samples: row n of the features is its dense values, followed for
/// each slot by the sum of its bag, Σ value · embedding.
struct EmbeddingBagsSpec {
  std::int64_t batch = 0;
  std::int64_t dense = 0;  ///< May be 0
  std::int64_t slots = 0;
  std::int64_t width = 0;  ///< Of an embedding
  std::int64_t features() const { return dense + slots * width; }
};

/// Computes the features of a batch from embedding rows, and the gradient of the rows from that of the
/// features. Host memory, one thread: a bag and its gradients are added up in the order of the ids, to the
/// same bits every time. Neither pass allocates.
class EmbeddingBags {
 public:
  explicit EmbeddingBags(const EmbeddingBagsSpec& spec);
  const EmbeddingBagsSpec& spec() const { return spec_; }

  /// @param dense (batch, dense)
  /// @param found what find(bags) left
  /// @param rows (found.keys(), width)
  /// @param features (batch, features()); overwritten. Empty bags give zeros.
  void forward(std::span<const float> dense, const Bags& bags, const BatchRows& found,
               std::span<const float> rows, std::span<float> features) const;
  /// @param dfeatures (batch, features()): the gradient of the features
  /// @param drows (found.keys(), width): overwritten with the gradient of the rows, Σ value · dfeatures over
  /// their ids
  void backward(const Bags& bags, const BatchRows& found, std::span<const float> dfeatures,
                std::span<float> drows) const;

 private:
  void check(const Bags& bags, const BatchRows& found, std::size_t rows, std::size_t features) const;

  EmbeddingBagsSpec spec_;
};

}  // namespace flotilla
