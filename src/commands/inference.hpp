// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "models/network.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/config/deck.hpp"
#include "src/data/dataset.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/find_checkpoint.hpp"

namespace flotilla {

/// Collective. The deck at `path`, or, if that is empty, the one in the checkpoint.
/// @throws AgreedFailure if the checkpoint holds weights only; `remedy` says how to name a deck
LoadedDeck deck_for(const LoadedCheckpoint& checkpoint, const std::string& path,
                    const std::vector<std::string>& overrides, const std::string& remedy,
                    const mpi::Communicator& world);

/// Collective. The names of the classes: those in the file data.class_names if it differs from the one used
/// in training, otherwise those that the checkpoint keeps. Empty: classes have numbers only.
/// @throws AgreedFailure for a file that does not fit
std::vector<std::string> names_for(const LoadedCheckpoint& checkpoint, const Config& config,
                                   const mpi::Communicator& world);

/// The ranks that apply a network.
struct InferenceRanks {
  const mpi::Communicator& world;
  const std::vector<mpi::Place>& places;
  mpi::Watchdog& watchdog;
};

/// A checkpoint's network on each rank, and the samples of data.validation to apply it to: what evaluation
/// and prediction share.
class Inference {
 public:
  /// Collective. @param check called on each rank before anything is opened; may throw
  /// @param batch the samples of a batch, for the number of all samples
  /// @param shard the samples that this rank applies the network to, for the numbers of all and of a batch
  /// @throws AgreedFailure for the user's mistakes
  Inference(const Config& config, const LoadedCheckpoint& checkpoint, const InferenceRanks& ranks,
            const std::function<void()>& check, const std::function<std::int64_t(std::int64_t)>& batch,
            const std::function<ValidationShard(std::int64_t, std::int64_t)>& shard);
  ~Inference();

  const Dataset& data() const { return *data_; }
  /// Lines for the user on how the numbers of the data differ from those of training.
  const std::vector<std::string>& notes() const { return notes_; }
  Network& network() { return *network_; }
  DeviceSpan<float> sums() { return sums_.span().subspan(0, loss_sums); }  ///< loss_sums floats of scratch.
  NetworkInputs inputs();
  /// The outputs of the rows of a batch that count, after forward: in units of the data for a model that
  /// predicts numbers, otherwise logits. Valid until the next call.
  std::span<const float> outputs(const Batch& batch);

 private:
  class LocalEmbeddings;
  std::vector<std::uint64_t> keys_of(ValidationShard shard, const LoaderOptions& options);
  void read_rows(const LoadedCheckpoint& checkpoint, const DataConfig& data, const InferenceRanks& ranks,
                 ValidationShard shard);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Dataset> data_;
  std::unique_ptr<Network> network_;
  Storage parameters_;
  Storage statistics_;
  Storage sums_;
  std::unique_ptr<LocalEmbeddings> embeddings_;
  std::int64_t width_;                ///< Outputs of a sample
  std::optional<OutputUnits> units_;  ///< Units of predicted numbers
  std::vector<float> rows_;
  std::vector<std::string> notes_;
};

}  // namespace flotilla
