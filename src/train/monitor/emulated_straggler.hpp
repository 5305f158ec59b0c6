// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/config/config.hpp"

namespace flotilla {

/// A worker that run.emulate_straggler makes slow: it sleeps, so that the others keep their cores.
class EmulatedStraggler {
 public:
  /// @throws UserError if the deck's rank is no worker
  EmulatedStraggler(const EmulatedStragglerConfig& config, int rank, int workers);

  bool emulates() const { return config_.rank >= 0; }
  /// Sleeps as the deck asks at the end of a backward pass of `step`, whose computation took `compute_ns` so
  /// far. Returns the time slept, ns; 0 on the other workers.
  std::int64_t pause(std::int64_t step, std::int64_t compute_ns) const;
  /// "rank 1 takes 2 times as long in every 10th step"; empty: none is emulated.
  std::string description() const;

 private:
  EmulatedStragglerConfig config_;
  int rank_;
  int workers_;
};

}  // namespace flotilla
