// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/compare/plan.hpp"
#include "src/config/deck.hpp"

namespace flotilla {

/// One training of a comparison: a run with a seed.
struct PlannedTraining {
  std::size_t run = 0;  ///< Index in Plan::runs
  std::int64_t seed = 0;
  LoadedDeck deck;
};

/// All trainings of a plan, a seed after the other, with checked decks. Pure apart from resolving relative
/// paths. With Equal::samples and train.steps a run of another global batch gets as many steps as give the
/// samples of the first run, rounded up to a whole step.
/// @param deck_text of Plan::deck  @param overrides of the command line, for all runs
/// @param global_batch_of the samples of a step over all workers; throws UserError where a configuration does
/// not fit the ranks of the job
/// @throws config::MistakesError with all mistakes of all runs, and those of `reading`
std::vector<PlannedTraining> planned_trainings(
    const PlanReading& reading, const std::string& deck_text, const std::vector<std::string>& overrides,
    const std::function<std::int64_t(const Config& config)>& global_batch_of);

}  // namespace flotilla
