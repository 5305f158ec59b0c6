// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/report/run_record.hpp"

namespace flotilla::report {

/// @throws UserError if the folder holds no metrics.jsonl
void check_is_run(const std::string& folder);

/// @throws UserError if the folder holds no run, or one that has not reported a step
void check_has_step(const std::string& folder);

/// Reads metrics.jsonl, failure.json and deck.toml of a run's folder. The run may be under way. Damaged lines
/// are left out, with a warning that counts them.
/// @throws UserError if the folder holds no run, or one that has not reported a step
RunRecord read_run(const std::string& folder, const std::string& name);

/// Reads several runs.
/// @throws UserError as read_run does, and if a run is given twice
std::vector<RunRecord> read_runs(const std::vector<std::string>& folders);

/// Names for folders: as many of the last parts of a path as it takes to tell it from the others.
std::vector<std::string> unique_names(const std::vector<std::string>& folders);

}  // namespace flotilla::report
