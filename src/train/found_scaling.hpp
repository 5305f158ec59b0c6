// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/data/dataset.hpp"

namespace flotilla {

/// Whether a scaling is "auto" and not found yet.
bool wants_scaling(const DataConfig& data);

/// Collective. Finds the means and deviations (of the population) that are "auto", of each feature, channel
/// or target, with 9 digits: one pass over the training data, whose samples the ranks share. The same for any
/// number of ranks. A deviation of 0 becomes 1; of more than 1,024 features all get one mean.
/// @param training opened without the scaling that is sought  @throws AgreedFailure naming a sample whose
/// numbers are not finite
void find_scaling(DataConfig& data, const Dataset& training, const mpi::Communicator& workers,
                  mpi::Watchdog& watchdog);

/// Sentences about inputs and numbers to be predicted that no key scales and that are far from 1, by some
/// samples that are read.
std::vector<std::string> scale_warnings(const DataConfig& data, const Dataset& training);

}  // namespace flotilla
