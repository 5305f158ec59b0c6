// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/train/monitor/click_metrics.hpp"

namespace flotilla {

/// How well the samples of training are predicted, each before it is learned: all since clear(), and those of
/// the last batches, as in the original's examples. Predictions that are NaN are left out: such a run ends.
class ClickLog {
 public:
  static constexpr std::size_t default_window = 20;  ///< fleet.md §6.9

  /// @param batch the most samples of a batch
  /// @param window batches of this worker that batch_auc looks back
  explicit ClickLog(std::size_t batch, std::size_t window = default_window);

  /// The logits (two each) and labels of one batch. Allocates nothing.
  void add(std::span<const float> logits, std::span<const std::int32_t> labels);
  /// Forgets all but the last batches.
  void clear();

  struct Areas {
    double auc = 0.0;
    double batch_auc = 0.0;
  };
  /// Of this worker's samples; or, collective, of those of all `workers`. Allocates nothing.
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
