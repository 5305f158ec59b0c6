// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/observe/mlperf_log.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

/// The submission, the data and the hyperparameters of a run under MLPerf Training's keys, those of ruleset
/// 4.0.0 for ResNet. Facts that a deck does not give: the organisation is "flotilla", the division "open",
/// the status "research"; a decay that is not a polynomial has no power.
MlperfFacts mlperf_facts(const RunParts& run);

}  // namespace flotilla
