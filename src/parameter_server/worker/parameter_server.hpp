// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/parameter_server/worker/served_worker.hpp"
#include "src/strategy/buckets.hpp"

namespace flotilla {

/// A worker of parameter servers that run the optimizer: pushes gradients and pulls values.
///
/// server.mode = "sync": in every step, and the servers wait for all workers, with the result of all-reduce.
/// "async": in every step, and no worker waits for another. "half-async": as "async", after push_every steps
/// with the mean of their gradients.
class ParameterServer : public Strategy {
 public:
  /// @param slots optimizer that receives the servers' slots on worker 0, to save them; null on other workers
  ParameterServer(const ServedWorker& worker, Optimizer* slots);

  void start() override;
  void resume(const Resumption& resumed) override;
  DeviceSpan<float> loss_sums() override { return parts_.gradients.subspan(0, flotilla::loss_sums); }
  void clear_gradients() override { parts_.device.flat().fill(parts_.gradients, 0.0F); }
  void vote_to_stop() override;
  void gradient_ready(std::int64_t) override {}
  StepOutcome finish_step(const StepInfo& info) override;
  Model consensus() override { return parts_.model; }
  StrategyState state() override;
  std::vector<StateArray> live() override { return state_arrays(parts_.model, slots_); }
  Alike alike() const override { return {.model = parts_.model}; }
  Pace pace() const override {
    return independent_ ? independent_pace(parts_.server(), push_every_, since_push_) : Pace();
  }
  StrategyTimes times() const override { return times_; }
  std::int64_t held_bytes() const override;
  StrategyDescription description() const override { return describe(parts_); }

 private:
  void push_pull_step(const StepInfo& info);
  void unscale();
  void merge();

  ServedWorker parts_;
  Optimizer* slots_;
  bool independent_;
  std::int64_t push_every_;
  Storage merged_;                       ///< half-async: the sum of the gradients since the last push
  std::int64_t batches_ = 0;             ///< Batches in the next push, without those that overflowed
  std::int64_t since_push_ = 0;          ///< Steps
  std::unique_ptr<MetricSync> metrics_;  ///< Null: workers synchronise in every step
  std::int64_t optimizer_steps_ = 0;     ///< Optimizer steps of the servers
  std::int64_t steps_ = 0;
  StrategyTimes times_;
};

}  // namespace flotilla
