// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/layer.hpp"
#include "models/worker_exchange.hpp"

namespace flotilla {

/// Batch normalisation of one tensor with its parameters and statistics: "<name>.weight", "<name>.bias",
/// "<name>.running_mean", "<name>.running_var". Given a WorkerExchange, mean and variance are those of all
/// workers' batches, which must be of one size. Where Arenas::fixed_statistics names its statistics, training
/// normalises with the running ones, which it leaves alone.
class Norm {
 public:
  /// @param exchange null: statistics of this worker's batch alone
  Norm(const Building& network, const std::string& name, const BatchNormSpec& spec, WorkerExchange* exchange);
  void bind(const Arenas& arenas);

  /// y may be x.
  void forward(const Tensor& x, const Tensor* residual, Tensor& y, Pass pass);
  /// Computes the output of the last training pass again, without updating statistics.
  void replay(const Tensor& x, const Tensor* residual, Tensor& y);
  /// As BatchNorm::backward, on the statistics of the last training pass.
  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor* more_dy, Tensor& dx,
                Tensor* dresidual);

 private:
  /// Those of the last training pass.
  GivenStatistics used() const { return fixed_ ? running_ : GivenStatistics(batch_); }
  void backward_in_halves(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor* more_dy,
                          Tensor& dx, Tensor* dresidual);

  Device& device_;
  std::unique_ptr<BatchNorm> plan_;
  WorkerExchange* exchange_;
  std::int64_t channels_;
  std::int64_t local_count_;  ///< Values per channel of this worker's batch
  std::int64_t count_;        ///< Values per channel of all workers whose statistics are combined
  bool accumulate_;
  Slice scale_slice_, shift_slice_, mean_slice_, variance_slice_;
  ScaleShift weights_;
  ScaleShiftGradients gradients_;
  GivenStatistics running_;
  Statistics step_;
  bool fixed_ = false;
  Storage memory_;  ///< Means, variances, two sums
  Statistics batch_;
  ScaleShiftGradients sums_;
};

}  // namespace flotilla
