// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/device.hpp"

namespace flotilla {

struct StepInfo {
  std::int64_t step = 0;  ///< 0, 1, …
  double learning_rate = 0.0;
};

/// What a step's samples came to, over all workers.
struct StepOutcome {
  double loss = 0.0;           ///< Mean over the samples
  double accuracy_top1 = 0.0;  ///< In [0, 1]
  double accuracy_top5 = 0.0;
  bool stop = false;  ///< Some worker was asked to stop; every worker sees the same verdict
};

/// Time and traffic since the start of training.
struct StrategyTimes {
  std::int64_t exposed_comm_ns = 0;  ///< The training thread waited for communication
  std::int64_t optimizer_ns = 0;
  std::int64_t sent_bytes = 0;
};

/// One model, laid out as a network's arenas.
struct Model {
  DeviceSpan<float> parameters;
  DeviceSpan<float> statistics;
};

/// How the workers agree on one model. The trainer calls it at these points and nowhere else.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Collective. Every worker leaves with worker 0's values (a broadcast, never an average).
  virtual void start() = 0;
  /// Where this worker's loss sums of the step belong: loss_sums floats, zeroed by the caller before the
  /// forward pass.
  virtual DeviceSpan<float> loss_sums() = 0;
  /// Before the first of several micro-steps, whose gradients and statistics add up.
  virtual void clear_gradients() = 0;
  /// Counts as a request to stop after this step. Before backward.
  virtual void vote_to_stop() = 0;
  /// During backward: the gradients from `begin` to the end of the arena are final.
  virtual void gradient_ready(std::int64_t begin) = 0;
  /// Collective. After backward: leaves the values for the next step in this worker's arena.
  virtual StepOutcome finish_step(const StepInfo& info) = 0;
  /// Collective. The one model to evaluate or save; valid until the next step. Training does not notice.
  virtual Model consensus() = 0;
  virtual StrategyTimes times() const = 0;
};

}  // namespace flotilla
