// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/layer_kind.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/config/config.hpp"
#include "src/data/sharding.hpp"

namespace flotilla {

/// Lines for the start about what never comes into effect because training ends before: milestones, the end
/// of the warm-up, local steps, a period. @param begin of the run, or the checkpoint that it goes on from
std::vector<std::string> plan_notes(const Config& config, const Sharding& sharding,
                                    const CheckpointState& begin);

/// A warning where the learning rate at the checkpoint is another one than that of the checkpoint's deck;
/// empty: it is not.
std::string rate_jump(const Config& config, const Sharding& sharding, const CheckpointState& checkpoint);

/// A table of the layers with their shapes and parameters, for `train --check`.
std::vector<std::string> describe_layers(const std::vector<PlannedLayer>& layers);

}  // namespace flotilla
