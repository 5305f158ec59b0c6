// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>

#include "src/train/machine.hpp"
#include "src/train/run_data.hpp"
#include "src/train/synchronisation.hpp"
#include "src/train/trained_model.hpp"

namespace flotilla {

/// What a worker computes with: four parts, each made with those before it and destroyed in reverse.
struct RunParts {
  /// Collective over `workers`. @throws AgreedFailure for the user's mistakes, on every rank
  /// @param saved_choices, communication_sinks as Synchronisation takes them
  /// @param servers null without parameter servers
  RunParts(const Config& deck, const mpi::Communicator& workers, FailureHandler& failure,
           mpi::Watchdog& watchdog, const std::map<std::string, std::string>& saved_choices,
           std::span<trace::Sink* const> communication_sinks = {}, ServerLink* servers = nullptr)
      : config(deck),
        machine(deck, workers, watchdog, servers),
        data(deck, machine),
        model(deck, machine, data),
        sync(machine, data, model, failure, saved_choices, communication_sinks) {}
  RunParts(const RunParts&) = delete;
  RunParts& operator=(const RunParts&) = delete;

  const Config& config;
  Machine machine;
  RunData data;
  TrainedModel model;
  Synchronisation sync;
};

}  // namespace flotilla
