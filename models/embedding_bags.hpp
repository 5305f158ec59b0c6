// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "models/bags.hpp"
#include "models/batch_rows.hpp"

namespace flotilla {

/// Click samples as a network sees them, one batch: row n of the features is its dense values, and for each
/// slot the sum of its bag, Σ value · embedding.
struct EmbeddingBagsSpec {
  std::int64_t batch = 0;
  std::int64_t dense = 0;  ///< May be 0
  std::int64_t slots = 0;
  std::int64_t width = 0;  ///< Of an embedding
  std::int64_t features() const { return dense + slots * width; }
};

/// From the rows that a batch needs to its features, and back. Host memory, one thread: a bag and its
/// gradients are added up in the order of the ids, to the same bits every time. Neither pass allocates.
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
  /// the ids that name them
  void backward(const Bags& bags, const BatchRows& found, std::span<const float> dfeatures,
                std::span<float> drows) const;

 private:
  void check(const Bags& bags, const BatchRows& found, std::size_t rows, std::size_t features) const;

  EmbeddingBagsSpec spec_;
};

}  // namespace flotilla
