// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/train/monitor/click_metrics.hpp"

namespace flotilla {

/// Metrics of the predictions for training samples, each before its update: of all since clear(), and of the
/// last batches, as in Fleet's examples. Predictions that are NaN are left out: such a run ends.
class ClickLog {
 public:
  static constexpr std::size_t default_window = 20;  ///< As docs/fleet.md, "Clicks"

  /// @param batch the most samples of a batch
  /// @param window number of this worker's last batches for batch_auc
  explicit ClickLog(std::size_t batch, std::size_t window = default_window);

  /// The logits (two each) and labels of one batch. Allocates nothing.
  void add(std::span<const float> logits, std::span<const std::int32_t> labels);
  /// Forgets all but the last batches.
  void clear();

  struct Areas {
    double auc = 0.0;
    double batch_auc = 0.0;
  };
  /// The metrics of this worker's samples; or, collective, of those of all `workers`. Allocates nothing.
  Areas areas(const mpi::Communicator* workers);

 private:
  std::size_t window_;
  std::vector<std::uint16_t> kept_;  ///< Cells of the samples in the window, `batch` for each of its batches
  std::vector<std::size_t> sizes_;   ///< Samples of each of them
  std::size_t oldest_ = 0;
  std::vector<std::int64_t> counts_;  ///< Cells of all samples, then those of the window
  std::vector<std::int64_t> merged_;
};

}  // namespace flotilla
