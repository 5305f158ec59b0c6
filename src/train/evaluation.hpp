// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/network.hpp"
#include "mpi/core/communicator.hpp"
#include "src/data/dataset.hpp"
#include "src/data/loader.hpp"
#include "src/observe/metrics.hpp"
#include "src/parameter_server/worker/embeddings.hpp"

namespace flotilla {

struct Evaluation {
  Figures figures{};  ///< Figures of metrics() that apply to the model
  std::int64_t samples = 0;
  std::vector<Figures> outputs{};  ///< Figures of each output, where the model predicts no classes
  std::int64_t not_finite = -1;    ///< First sample of the first batch whose loss is not finite; −1: none

  double loss() const { return figures.at("loss"); }
};

using NetworkInputs = std::function<HostBatch(const Batch&)>;

/// The inputs of a click model's network, with the rows that the servers hold; empty where `embeddings`,
/// which must outlive them, is null. @param step of the training, for messages
NetworkInputs evaluation_inputs(Embeddings* embeddings, std::int64_t step);

/// A network and the samples that it is applied to.
struct EvaluationTask {
  Network& network;
  const Dataset& data;
  LoaderOptions options;
  DeviceSpan<float> sums;  ///< loss_sums floats on the device: of the batch, when on_batch is called
  NetworkInputs inputs{};  ///< The network's input for a batch; empty: the batch's own
};

/// Applies the network to the samples of `shard`, in order and in batches of its size.
/// @param on_batch called after each batch, with the number of its first sample: network.logits() are its
/// rows'. If the samples have no targets for the network's loss, the targets count as 0
void apply(const EvaluationTask& task, ValidationShard shard,
           const std::function<void(const Batch&, std::int64_t first)>& on_batch);

/// Collective. Mean loss and metrics over all samples, each counted once whatever the rank count and batch
/// size.
/// @param parts number of parts that each worker computes one after another: the bits depend on their total
/// over all workers
/// @param config of the model: says which metrics are computed in addition to the loss
/// @param on_batch called after each batch: network.logits() are its rows'
Evaluation evaluate(const EvaluationTask& task, const mpi::Communicator& workers, std::int64_t parts,
                    const Config& config, const std::function<void(const Batch&)>& on_batch);

}  // namespace flotilla
