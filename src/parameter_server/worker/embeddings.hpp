// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi/watchdog/watchdog.hpp"
#include "src/data/loader.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/parameter_server/worker/embedding_pool.hpp"
#include "src/parameter_server/worker/local_rows.hpp"
#include "src/parameter_server/worker/row_exchange.hpp"
#include "src/parameter_server/worker/server_link.hpp"

namespace flotilla {

/// A worker's side of a model's embedding table, whose rows lie on the servers: what they come to for a
/// batch, and what becomes of them. With a rule of its own (GEO) the worker trains copies of the rows.
class Embeddings {
 public:
  struct Parts {
    ServerLink& servers;
    mpi::Watchdog& watchdog;
    EmbeddingBagsSpec training;
    EmbeddingBagsSpec validation;
    bool per_slot = false;                ///< An id has a row for each slot
    mpi::Wire wire = mpi::Wire::float32;  ///< Of rows, both ways
    std::optional<RowRule> rule{};        ///< By which this worker trains the rows; none: the servers do
  };
  explicit Embeddings(const Parts& parts);

  LocalRows* local() { return local_ ? &*local_ : nullptr; }  ///< With a rule; else null

  /// The network's input for a batch of training, valid until the next one. Fetches rows unless they came
  /// with the last exchange (see look_ahead).
  std::span<float> features(const Batch& batch, std::int64_t step);
  /// The same for evaluation: rows that are not there are as they would begin, and none is made.
  std::span<float> evaluate(const Batch& batch, std::int64_t step);

  /// After backward of the batch of features(): its rows' gradients, to be pushed, or for train().
  /// @param gradient of the features, times the loss scale
  void add_gradient(const Batch& batch, std::span<const float> gradient, const LossScale& scale);
  /// Of the last add_gradient(), or nobody looks.
  bool gradients_are_finite() const { return finite_; }
  /// The rows of this batch are to come with the next exchange, behind what is pushed. It must be the one of
  /// the next features().
  void look_ahead(const Batch& next);

  /// With a rule: one step of the rows of the last add_gradient(). @param step as LocalRows has it
  void train(double learning_rate, std::int64_t step);
  /// With a rule: how far rows came, times `share`, goes with the next exchange, and the servers' values come
  /// back.
  void push_differences(float share);
  /// With a rule, when all have pushed: every row is pulled again before it is used.
  void pull_all_again() { local_->pull_all_again(); }

  /// For the exchange of dense values: what goes with it.
  std::span<const mpi::Payload> payloads();
  void finish();  ///< After that exchange.

  /// Training waited for rows that did not come with an exchange, and asked for them in so many bytes.
  std::int64_t waited_ns() const { return waited_ns_; }
  std::int64_t sent_bytes() const { return sent_bytes_; }
  /// Collective. Lines about the whole run; none without a rule.
  std::vector<std::string> report(const mpi::Communicator& workers) const;

 private:
  void fetch(RowOperation operation, std::span<const std::uint64_t> keys, std::span<float> rows,
             std::int64_t step);
  void fetch_for_training(std::span<const std::uint64_t> keys, std::span<float> rows, std::int64_t step);
  std::span<float> gradients();
  std::span<float> room_of(std::span<const std::uint64_t> keys);

  Parts parts_;
  EmbeddingPool training_;
  EmbeddingPool validation_;
  bool here_ = false;     ///< The next batch's rows
  bool coming_ = false;   ///< They are asked for in the next exchange
  RowExchange exchange_;  ///< With the dense values
  RowExchange pulls_;     ///< By themselves
  std::vector<float> gradients_;
  bool finite_ = true;
  std::optional<LocalRows> local_;
  std::vector<float> room_;  ///< For rows that come to be local
  std::vector<float> differences_;
  std::int64_t waited_ns_ = 0;
  std::int64_t sent_bytes_ = 0;
};

}  // namespace flotilla
