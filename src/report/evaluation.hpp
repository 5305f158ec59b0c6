// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/report/run_record.hpp"

namespace flotilla::report {

/// The name of the file in a run's folder that `flotilla evaluate --json --output` wrote.
inline constexpr const char* evaluation_file = "/evaluation.json";

/// Puts the run's evaluation.json into the record. One that is older than the run, of a step that the run has
/// not done, or that evaluate did not write, is left out with a warning.
void add_evaluation(RunRecord& record);

}  // namespace flotilla::report
