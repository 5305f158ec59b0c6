// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/data/sharding.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

/// Time of the training thread since the start, by phase, nanoseconds.
struct PhaseTimes {
  std::int64_t steps = 0;
  std::int64_t step_ns = 0;     ///< All of them, without validation and checkpoints
  std::int64_t input_ns = 0;    ///< Waiting for a batch
  std::int64_t read_ns = 0;     ///< Reading, summed over the loader's threads
  std::int64_t forward_ns = 0;  ///< Without waiting for other workers, like the next
  std::int64_t backward_ns = 0;
  std::int64_t sums_ns = 0;       ///< Waiting for sums of gradients, averaging, pushing and pulling
  std::int64_t exchange_ns = 0;   ///< Synchronisation::waited_ns(), in forward and backward
  std::int64_t optimizer_ns = 0;  ///< Looking for overflow and updating the model
  std::int64_t pause_ns = 0;      ///< run.emulate_straggler
  std::int64_t stall_ns = 0;      ///< Checkpoints: waiting for copies and reads
  std::int64_t saving_ns = 0;     ///< Checkpoints: all of it
  std::int64_t validation_ns = 0;

  /// The training thread waited for communication.
  std::int64_t exposed_comm_ns() const { return sums_ns + exchange_ns; }
  double mean_step_s() const {  ///< 0 before the first step
    return seconds(step_ns) / static_cast<double>(std::max<std::int64_t>(1, steps));
  }
};

/// The progress of a training. Its step advances it, its other parts read it.
struct TrainingState {
  std::int64_t step = 0;  ///< Steps done
  Position position;
  std::int64_t samples = 0;
  double learning_rate = 0.0;   ///< Learning rate of the last step
  std::int64_t reductions = 0;  ///< Plateau::reductions(), equal on all workers
  double seconds_before = 0.0;  ///< Time of the steps before the resume; with train.seconds
  PhaseTimes times{};           ///< Checkpoints and validations add theirs

  std::int64_t epoch_of_last_step() const {
    return position.offset == 0 && position.epoch > 0 ? position.epoch - 1 : position.epoch;
  }
  double trained_s() const { return seconds_before + seconds(times.step_ns); }
};

}  // namespace flotilla
