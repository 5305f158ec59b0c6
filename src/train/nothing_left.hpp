// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/config/deck.hpp"
#include "src/data/sampler.hpp"
#include "src/train/beginning.hpp"

namespace flotilla {

/// The limit of train.steps or train.epochs that a run has reached, "train.epochs = 3"; empty: neither.
/// @param position that a step may begin at
std::string reached_limit(const TrainConfig& train, std::int64_t step, const Position& position);

/// Whether a step is reported: every so many, and the last. @param step done  @param position behind it
bool is_reported(const Config& config, std::int64_t step, const Position& position);

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
