// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "src/data/loader.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

/// Collective. model.statistics ← the mean of the statistics of batch norm with model.parameters, over
/// `batches` training batches of every worker (variances unbiased). For averaged parameters, to which no
/// worker's running statistics belong (Izmailov et al. 2018).
/// @param loader hands out the batches; the network ends bound to run.model.weights
void re_estimate_statistics(RunParts& run, const Model& model, Loader& loader, std::int64_t batches);

}  // namespace flotilla
