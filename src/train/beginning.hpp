// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/config/config.hpp"
#include "src/data/sampler.hpp"
#include "src/train/find_checkpoint.hpp"

namespace flotilla {

/// CheckpointState::numbers: seconds that steps took so far, with train.seconds.
inline constexpr const char* trained_seconds = "train/seconds";

/// The counters at which a run begins: zeros, or those of a checkpoint.
struct Beginning {
  std::int64_t step = 0;
  Position position;
  std::int64_t samples = 0;
  std::string checkpoint{};                      ///< The file; empty: none
  std::map<std::string, std::string> changes{};  ///< Continuation::changes
  std::map<std::string, double> best{};          ///< BestValidation::numbers(); empty: no validation yet
  double seconds = 0.0;                          ///< That steps took before; with train.seconds
};

/// Where the training loop begins. @param resumed null: at zero
Beginning beginning_at(const LoadedCheckpoint* resumed, const std::map<std::string, std::string>& changes,
                       const Config& config);

}  // namespace flotilla
