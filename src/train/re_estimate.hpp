// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "src/data/loader.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

/// Collective. model.statistics ← the mean, over as many training batches of every worker, of what batch norm
/// finds in them with model.parameters (variances unbiased). For parameters that were averaged: statistics
/// that each worker gathered on its way belong to none of them (Izmailov et al. 2018, the same for averaged
/// weights).
/// @param loader hands out the batches; the network ends bound to run.model.weights
void re_estimate_statistics(RunParts& run, const Model& model, Loader& loader, std::int64_t batches);

}  // namespace flotilla
