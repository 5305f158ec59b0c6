// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/host_staging.hpp"
#include "kernels/trace.hpp"
#include "mpi/all_reduce/communication_lanes.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/job/failure.hpp"
#include "src/parameter_server/worker/embeddings.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/gradient_sums.hpp"
#include "src/strategy/model_update.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"
#include "src/strategy/strategy.hpp"
#include "src/train/machine.hpp"
#include "src/train/run_data.hpp"
#include "src/train/run_model.hpp"

namespace flotilla {

/// Synchronisation::choices: the number of workers, which no key of the deck names.
inline constexpr const char* chosen_workers = "workers";

/// The fourth part of a run: how the workers agree on one model.
struct Synchronisation {
  /// Collective over the workers. Allocates the model's arrays, measures all-reduces where the deck says
  /// "auto", and makes the strategy.
  /// @param saved_choices of the checkpoint from which the run goes on: they are not measured again
  /// @param communication_sinks one per communicator; empty: no trace
  /// @throws AgreedFailure for the user's mistakes, on every rank
  Synchronisation(const Machine& machine, const RunData& data, RunModel& model, FailureHandler& failure,
                  const std::map<std::string, std::string>& saved_choices,
                  std::span<trace::Sink* const> communication_sinks);
  Synchronisation(const Synchronisation&) = delete;
  Synchronisation& operator=(const Synchronisation&) = delete;

  /// Steps by which the exchange that brings the rows of a step's batch is begun before it; 0: rows come with
  /// no exchange.
  std::size_t rows_ahead() const;
  /// Time that the training thread waited for synchronised batch norm and for rows, in forward and backward.
  std::int64_t waited_ns() const;
  /// This worker's errors of a scaled wire or of compression, for its own part of a checkpoint; empty: none.
  std::vector<StateArray> wire_errors();
  std::int64_t sent_bytes() const;                   ///< Since the start of training, rows included
  std::map<std::string, std::int64_t> sent() const;  ///< Its parts by sent_words, those that are not 0

  RunModel& model;
  std::vector<Bucket> buckets;
  Reduction reduction;  ///< Reduction of gradients
  Reduction averaging;  ///< Local SGD: of parameters
  std::map<std::string, std::string>
      choices;  ///< Values for what the deck leaves open ("auto"); stored in checkpoints
  std::optional<HostStaging> push_staging;                 ///< Parameter servers: of what is pushed
  std::optional<HostStaging> pull_staging;                 ///< Parameter servers: of what is pulled
  std::optional<mpi::MissingRanks> missing;                ///< For all-reduces, or for the servers
  std::optional<mpi::AsyncErrorMonitor> failures;          ///< Errors of a library of all-reduces
  std::unique_ptr<Embeddings> embeddings;                  ///< Null: the model has none
  std::unique_ptr<mpi::CommunicationLanes> communication;  ///< Null: one bucket
  Traffic traffic;
  std::unique_ptr<GradientSums> sums;
  std::unique_ptr<ModelUpdate> update;  ///< Null: the servers update the model
  std::unique_ptr<Strategy> strategy;

 private:
  void connect_workers(const std::map<std::string, std::string>& saved_choices);
  void connect_servers(const RunData& data);
  void compress(const AllReduceConfig& deck, std::span<const DeviceSpan<float>> spans);
  void watch();
  void make_step(std::span<trace::Sink* const> communication_sinks, FailureHandler& failure);
  std::unique_ptr<Embeddings> make_embeddings(const RunData& data);
  std::unique_ptr<Strategy> make_strategy(FailureHandler& failure);
  std::unique_ptr<Strategy> make_served_strategy(std::span<trace::Sink* const> communication_sinks,
                                                 FailureHandler& failure);
};

}  // namespace flotilla
