// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/config/collect_keys.hpp"
#include "src/config/deck.hpp"

namespace flotilla {

/// The quantity that all trainings of a comparison have in common.
enum class Equal {
  samples,  ///< The number of training samples, over all workers
  time,     ///< Seconds of training steps
};

/// One row of a comparison: the plan's deck with these overrides.
struct PlannedRun {
  std::string name;
  std::string folder;  ///< Below the plan's output, made from the name: "local_sgd_8"
  std::vector<config::PlacedOverride> set;
};

/// The plan of `flotilla compare`: a TOML file (docs/compare.md).
struct Plan {
  std::string path;
  std::string deck;        ///< Path
  std::string output;      ///< Folder, as written; relative to the current folder
  std::int64_t seeds = 1;  ///< Trainings of each run: with the deck's run.seed, run.seed + 1, …
  Equal equal = Equal::samples;
  double seconds = 0.0;                     ///< Time of each training; with Equal::time
  std::optional<double> target;             ///< Accuracy or AUC to whose first reaching the time is given
  std::vector<config::PlacedOverride> set;  ///< For all runs
  std::vector<PlannedRun> runs;
};

/// A plan as far as it could be read.
struct PlanReading {
  Plan plan;
  std::vector<std::string> mistakes;  ///< "plan.toml:3:1: …", in the order of the text
};

/// Pure. Why no override may set the key; empty: it may.
/// @param path of the key  @param one_run the override is a run's, not all runs'
std::string refusal(const std::string& path, bool one_run);

/// Pure. @param text of the plan, TOML
PlanReading read_plan(const std::string& path, const std::string& text);

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
