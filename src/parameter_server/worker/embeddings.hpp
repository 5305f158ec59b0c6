// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/embedding_bags.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/data/dataset.hpp"
#include "src/data/loader.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/parameter_server/worker/local_rows.hpp"
#include "src/parameter_server/worker/row_exchange.hpp"
#include "src/parameter_server/worker/server_link.hpp"

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
  std::vector<float> rows_;  ///< Values of rows(), or more
  std::vector<float> features_;
};

/// A worker's side of a model's embedding table, whose rows are on the servers: pulls the rows of a batch,
/// pools them, and pushes their gradients. With a rule of its own (GEO) the worker trains copies of the rows.
class Embeddings {
 public:
  struct Parts {
    ServerLink& servers;
    mpi::Watchdog& watchdog;
    EmbeddingBagsSpec training;
    EmbeddingBagsSpec validation;
    bool per_slot = false;                ///< An id has a row for each slot
    mpi::Wire wire = mpi::Wire::float32;  ///< Wire type of rows, both ways
    std::optional<RowRule> rule{};        ///< The rule by which this worker trains rows; none: the servers do
    std::size_t ahead = 1;                ///< The batch of prefetch_rows() is the next but `ahead` − 1
  };
  explicit Embeddings(const Parts& parts);

  std::int64_t slots() const { return parts_.training.slots; }  ///< Slots of a sample
  LocalRows* local() { return local_ ? &*local_ : nullptr; }    ///< Null without a rule

  /// The network's input for a batch of training, valid until the next one. Pulls the rows unless they came
  /// with the last exchange (see prefetch_rows).
  std::span<float> features(const Batch& batch, std::int64_t step);
  /// The network's input for a batch of evaluation, valid until the next one. Missing rows have their initial
  /// values and are not created.
  std::span<float> evaluate(const Batch& batch, std::int64_t step);

  /// To be called after backward of the batch of features(): computes its rows' gradients, to be pushed or
  /// for train().
  /// @param gradient of the features, times the loss scale
  void add_gradient(const Batch& batch, std::span<const float> gradient, const LossScale& scale);
  /// Whether the rows' gradients of the last add_gradient() are finite; true where overflow is not checked.
  bool gradients_are_finite() const { return finite_; }
  /// Pulls the rows of this batch with the next exchange, after the push. features() takes it after the
  /// batches of earlier calls.
  void prefetch_rows(const Batch& batch);
  /// To be called after features() with `ahead` = 2: pulls the rows of the next batch unless they are here or
  /// are coming.
  void fetch_next(const Batch& next, std::int64_t step);
  /// The rows of the next batches are pulled again before they are used.
  void forget_rows();

  /// With a rule: one step of the rows of the last add_gradient(). @param step as in LocalRows::train
  void train(double learning_rate, std::int64_t step);
  /// With a rule: pushes the rows' changes since the last push, times `share`, with the next exchange, and
  /// pulls the servers' values.
  void push_differences(float share);
  /// With a rule, when all have pushed: every row is pulled again before it is used.
  void pull_all_again() { local_->pull_all_again(); }

  /// The payloads for the exchange of dense values. What is pushed and prefetched from now on belongs to the
  /// next one.
  std::span<const mpi::Payload> payloads();
  /// To be called after that exchange. With `ahead` = 2 another thread may call it concurrently with
  /// features(), add_gradient() and prefetch_rows().
  void finish();

  /// Time that training waited for rows that did not come with an exchange, and the bytes of those requests.
  std::int64_t waited_ns() const { return waited_ns_; }
  std::int64_t sent_bytes() const { return sent_bytes_; }
  /// Collective. Lines about the whole run; none without a rule.
  std::vector<std::string> report(const mpi::Communicator& workers) const;

 private:
  /// A batch and its rows.
  struct Held {
    EmbeddingPool pool;
    bool here = false;  ///< Its rows were received, or are coming with the exchange before its features()
  };

  void fetch(RowOperation operation, std::span<const std::uint64_t> keys, std::span<float> rows,
             std::int64_t step);
  void fetch_for_training(std::span<const std::uint64_t> keys, std::span<float> rows, std::int64_t step);
  std::span<float> gradients();
  std::span<float> room_of(std::span<const std::uint64_t> keys);

  Parts parts_;
  std::vector<Held> training_;  ///< `ahead` of them, used in turn
  std::size_t now_ = 0;         ///< Index of the batch of features()
  EmbeddingPool validation_;
  std::vector<RowExchange>
      exchanges_;              ///< For rows sent with the dense values, `ahead` of them, used in turn
  std::size_t next_ = 0;       ///< Index of the one for the next exchange
  std::size_t under_way_ = 0;  ///< Index of the one whose payloads() were taken
  RowExchange pulls_;          ///< For rows alone
  std::vector<float> gradients_;
  bool finite_ = true;
  std::optional<LocalRows> local_;
  std::vector<float> room_;  ///< Buffer for pulled rows that become local
  std::vector<float> differences_;
  std::int64_t waited_ns_ = 0;
  std::int64_t sent_bytes_ = 0;
};

}  // namespace flotilla
