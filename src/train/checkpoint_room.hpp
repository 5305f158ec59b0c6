// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/train/run_parts.hpp"

namespace flotilla {

/// Collective over the workers. Compares what the checkpoints to come take, without rows of tables, with what
/// is free where run.output lies or will lie.
/// @param warnings that the checkpoints that the deck keeps do not all fit at the same time
/// @returns on worker 0 "checkpoints  1.4 MB each, up to 3 at a time; 23 GB are free in /home/me/runs/mnist"
/// @throws AgreedFailure if not even one fits
std::string checkpoint_room(RunParts& run, std::vector<std::string>& warnings);

}  // namespace flotilla
