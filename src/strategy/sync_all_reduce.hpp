// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "src/strategy/gradient_sums.hpp"
#include "src/strategy/model_update.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// Synchronous data parallelism: gradients are summed over the workers, bucket by bucket while backward goes
/// on, divided by the workers, and every worker takes the same optimizer step (docs/fleet.md, "Synchronous
/// training"). Running statistics follow the mean of the workers' step statistics, so that all hold the same
/// ones. Sums and update are those that every step takes; nothing else is exchanged.
class SyncAllReduce : public Strategy {
 public:
  struct Parts {
    Device& device;
    const mpi::Communicator& workers;
    Reduction& reduction;  ///< Reduction of gradients
    GradientSums& sums;
    ModelUpdate& update;
    Traffic& traffic;
    Model model;  ///< This worker's model
  };
  explicit SyncAllReduce(const Parts& parts) : parts_(parts) {}

  void start() override;
  void resume(const Resumption& resumed) override;
  void begin_step(bool asks_to_stop) override;
  StepOutcome exchange(const StepInfo& info, const StepOutcome& own) override;
  Model consensus() override { return parts_.model; }
  StrategyState state() override;
  std::vector<StateArray> live() override;
  Replicated replicated() const override { return {.model = parts_.model, .slots = true}; }
  StrategyDescription description() const override;

 private:
  Parts parts_;
};

}  // namespace flotilla
