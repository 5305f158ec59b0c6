// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mpi/watchdog.hpp"
#include "src/data/loader.hpp"
#include "src/train/embedding_pool.hpp"
#include "src/train/row_exchange.hpp"
#include "src/train/server_link.hpp"

namespace flotilla {

/// A worker's side of a model's embedding table, whose rows lie on the servers: what they come to for a
/// batch, and what becomes of them.
class Embeddings {
 public:
  struct Parts {
    ServerLink& servers;
    mpi::Watchdog& watchdog;
    EmbeddingBagsSpec training;
    EmbeddingBagsSpec validation;
    bool per_slot = false;  ///< An id has a row for each slot
  };
  explicit Embeddings(const Parts& parts);

  /// The network's input for a batch of training, valid until the next one. Fetches rows unless they came
  /// with the last exchange (see look_ahead).
  std::span<float> features(const Batch& batch, std::int64_t step);
  /// The same for evaluation: rows that are not there are as they would begin, and none is made.
  std::span<float> evaluate(const Batch& batch, std::int64_t step);

  /// After backward of the batch of features(): its rows' gradients, to be pushed.
  /// @param gradient of the features
  void add_gradient(const Batch& batch, std::span<const float> gradient);
  /// The rows of this batch are to come with the next exchange, behind what is pushed. It must be the one of
  /// the next features().
  void look_ahead(const Batch& next);

  /// For the exchange of dense values: what goes with it.
  std::span<const mpi::Payload> payloads();
  void finish();  ///< After that exchange.

 private:
  void fetch(EmbeddingPool& pool, bool make, std::int64_t step);

  Parts parts_;
  EmbeddingPool training_;
  EmbeddingPool validation_;
  bool here_ = false;     ///< The next batch's rows
  bool coming_ = false;   ///< They are asked for in the next exchange
  RowExchange exchange_;  ///< With the dense values
  RowExchange pulls_;     ///< By themselves
  std::vector<float> gradients_;
};

}  // namespace flotilla
