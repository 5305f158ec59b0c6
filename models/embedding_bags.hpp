// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flotilla {

/// The ids of the samples of a batch: for each row and slot a bag of ids, repeats included.
struct Bags {
  std::span<const std::uint64_t> ids{};  ///< Ids of all bags, one after another
  std::span<const float> values{};       ///< Factor of the embedding of each id; empty: 1
  std::span<const std::int32_t> ends{};  ///< rows × slots: where each bag ends in `ids`
};

/// The rows of a sparse table that a batch needs. A row's key is the id itself; with `per_slot` the slot is
/// mixed in, so that an id has a row for every slot. Its memory grows to that of the largest batch and is
/// reused: 12 bytes an id, and 8 to 16 for the index.
class BatchRows {
 public:
  BatchRows(std::int64_t slots, bool per_slot);

  /// @throws InternalError where the bags do not fit together.
  void find(const Bags& bags);

  /// The distinct keys of the last find(), in the order in which its ids name them first.
  std::span<const std::uint64_t> keys() const { return {keys_.data(), distinct_}; }
  /// The index into keys() of each id of the last find().
  std::span<const std::int32_t> of_ids() const { return {rows_.data(), ids_}; }

 private:
  void check(const Bags& bags) const;
  void make_room(std::size_t ids);

  std::vector<std::uint64_t> salts_;  ///< Salt of each slot
  std::vector<std::uint64_t> keys_;
  std::vector<std::int32_t> rows_;
  std::vector<std::uint32_t> places_;  ///< Open addressing by key: 1 + its index in keys_; 0: free
  std::size_t ids_ = 0;
  std::size_t distinct_ = 0;
};

/// The network's input for a batch of click samples: row n of the features is its dense values, followed for
/// each slot by the sum of its bag, Σ value · embedding.
struct EmbeddingBagsSpec {
  std::int64_t batch = 0;
  std::int64_t dense = 0;  ///< May be 0
  std::int64_t slots = 0;
  std::int64_t width = 0;  ///< Width of an embedding
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
