// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "src/parameter_server/server/tensor_norms.hpp"
#include "src/parameter_server/server/update_mode.hpp"

namespace flotilla {

/// server.mode = "sync": an update once every worker that has not left has pushed, with the mean of their
/// gradients, added in the order of the workers: what an all-reduce gives. A step that overflowed on any
/// worker changes nothing. Where gradients arrive in parts, the values that all have pushed are updated and
/// sent back while the next ones arrive.
class SyncUpdates : public UpdateMode {
 public:
  explicit SyncUpdates(const Parts& parts);

  void take(const mpi::WorkerRequest& request) override;
  std::int64_t updates() const override { return updates_; }
  std::vector<std::string> report() const override { return parts().rows.report(); }

 private:
  void update();
  void update(std::size_t end);
  bool skips() const;
  void answer(std::size_t ready);
  void finish();
  DeviceSpan<const float> sum(std::size_t begin, std::size_t end);
  double clip_factor(DeviceSpan<const float> gradients, double scale) const;
  double learning_rate() const;
  void tell_missing();

  std::vector<std::optional<mpi::WorkerRequest>>
      pushes_;  ///< Pushes of this step, by worker, as far as received
  std::vector<bool> left_;
  TensorNorms norms_;
  int present_ = 0;                                   ///< Workers that have not left
  int pushed_ = 0;                                    ///< Workers that have pushed in this step
  std::optional<std::int64_t> step_;                  ///< The optimizer step, once it has begun
  std::size_t updated_ = 0;                           ///< Values that were updated in this step
  Storage sum_;                                       ///< Sum of the workers' gradients
  std::vector<std::span<const std::byte>> payloads_;  ///< Payloads of this step, in the order of the workers
  std::int64_t updates_ = 0;
};

}  // namespace flotilla
