// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/deck.hpp"
#include "src/data/sharding.hpp"
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
  /// Validations::numbers(): without the best of a figure that checkpoint.best no longer names
  std::map<std::string, double> numbers{};
  double seconds = 0.0;  ///< Time that earlier steps took; with train.seconds
};

/// The start of the training loop. @param resumed null: at zero
Beginning beginning_at(const LoadedCheckpoint* resumed, const std::map<std::string, std::string>& changes,
                       const Config& config);

/// Whether a run has reached train.steps or train.epochs. @param position that a step may begin at
bool is_at_limit(const TrainConfig& train, std::int64_t step, const Position& position);

/// The limit of is_at_limit() that a run has reached, "train.epochs = 3"; empty: neither.
std::string reached_limit(const TrainConfig& train, std::int64_t step, const Position& position);

/// The limit that a run has reached before its first step, also of time, patience or target; empty: it has
/// steps left.
std::string nothing_left(const Config& config, const Sharding& sharding, const Beginning& beginning);

/// The line about a run that trains nothing. @param limit of nothing_left()
std::string nothing_left_line(const std::string& checkpoint, const std::string& limit,
                              const std::vector<ResumeDifference>& differences);

/// To be called for a run that trains nothing. @param differences from the checkpoint's deck
/// @throws UserError naming all of them, if one says what is trained: the deck asks for a training that is
/// not done
void refuse_untrained_changes(const std::string& checkpoint, const std::string& limit,
                              const std::vector<ResumeDifference>& differences);

}  // namespace flotilla
