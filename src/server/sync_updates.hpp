// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "src/server/tensor_norms.hpp"
#include "src/server/update_mode.hpp"

namespace flotilla {

/// server.mode = "sync": an update once every worker that has not left has pushed, with the mean of their
/// gradients, added in the order of the workers: what an all-reduce gives. Nothing is learned from a step
/// that overflowed on some worker.
class SyncUpdates : public UpdateMode {
 public:
  explicit SyncUpdates(const Parts& parts);

  void take(const mpi::WorkerRequest& request) override;
  std::int64_t updates() const override { return updates_; }
  std::vector<std::string> report() const override { return parts().rows.report(); }

 private:
  void update();
  bool skips() const;
  void learn(DeviceSpan<const float> gradients, double learning_rate);
  DeviceSpan<const float> sum();
  double clip_factor(DeviceSpan<const float> gradients, double scale) const;

  std::vector<std::optional<mpi::WorkerRequest>> pushes_;  ///< Of this step, by worker
  std::vector<bool> left_;
  TensorNorms norms_;
  int present_ = 0;                                   ///< Workers that have not left
  int pushed_ = 0;                                    ///< Of them in this step
  Storage sum_;                                       ///< Of several workers' gradients
  std::vector<std::span<const std::byte>> payloads_;  ///< Of this step, in the order of the workers
  std::int64_t updates_ = 0;
};

}  // namespace flotilla
