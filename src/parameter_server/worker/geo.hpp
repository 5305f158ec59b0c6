// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "src/parameter_server/worker/served_worker.hpp"
#include "src/strategy/buckets.hpp"

namespace flotilla {

/// server.mode = "geo" (GEO-SGD; docs/fleet.md, "Parameter servers"): each worker takes optimizer steps of
/// its own and pushes every push_every steps its change of the parameters, divided by the workers, and pulls
/// the others' changes:
///
///     Δ = (p − old) / workers;  server: s ← s + Δ;  old ← old + Δ;  p ← p + (s − old);  old ← s
///
/// Running statistics are exchanged in the same way, and the rows of embeddings (local_rows.hpp) that were
/// trained since the last push.
class Geo : public Strategy {
 public:
  /// @param optimizer takes the steps
  Geo(const ServedWorker& worker, Optimizer& optimizer);

  void start() override;
  void resume(const Resumption& resumed) override;
  DeviceSpan<float> loss_sums() override { return parts_.gradients.subspan(0, flotilla::loss_sums); }
  void clear_gradients() override { parts_.device.flat().fill(parts_.gradients, 0.0F); }
  void vote_to_stop() override { metrics_.ask_to_stop(); }
  void gradient_ready(std::int64_t) override {}
  StepOutcome finish_step(const StepInfo& info) override;
  Model consensus() override;
  StrategyState state() override;
  std::vector<StateArray> live() override;
  Alike alike() const override { return {}; }
  Pace pace() const override {
    return independent_pace(parts_.server(), parts_.server().push_every, since_push_);
  }
  StrategyTimes times() const override { return times_; }
  std::int64_t held_bytes() const override;
  StrategyDescription description() const override { return describe(parts_); }

 private:
  void update(const StepInfo& info);
  void push_pull_step(std::int64_t step);
  void follow();
  Model model_in(Storage& array) const;

  ServedWorker parts_;
  Optimizer& optimizer_;
  MetricSync metrics_;
  Storage old_;                      ///< The servers' values at this worker's last pull
  Storage pushed_;                   ///< Buffer for differences
  Storage servers_;                  ///< Buffer for the servers' values: the model to evaluate
  std::vector<Storage> slot_means_;  ///< Means of the optimizer's slots, for checkpoints
  std::int64_t since_push_ = 0;      ///< Steps since the last push
  std::int64_t steps_ = 0;
  StrategyTimes times_;
};

}  // namespace flotilla
