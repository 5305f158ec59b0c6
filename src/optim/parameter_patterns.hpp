// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/arena.hpp"
#include "src/config/config.hpp"

namespace flotilla {

// The tensors that the patterns of a deck name: optimizer.frozen and optimizer.rates name parameters
// ("layer1.*"), model.fixed_statistics batch norms ("layer1.0.bn1"). "*", "?" and "[…]" mean what they mean
// in file names of a shell; "*" crosses dots.

/// Whether optimizer.frozen names the parameter.
bool is_frozen(const OptimizerConfig& config, const std::string& parameter);

/// The factor of the parameter's learning rate: that of the last entry of optimizer.rates that matches its
/// name, otherwise 1.
float rate_factor_of(const OptimizerConfig& config, const std::string& parameter);

/// For each parameter, whether optimizer.frozen names it.
std::vector<bool> frozen_slices(const OptimizerConfig& config, const ArenaLayout& parameters);

/// For each running statistic, whether model.fixed_statistics names its batch norm.
std::vector<bool> fixed_slices(const ModelConfig& config, const ArenaLayout& statistics);

/// @throws UserError for a pattern that names nothing in the network, with names that are similar, and where
/// nothing is left to train
void check_patterns(const Config& config, const ArenaLayout& parameters, const ArenaLayout& statistics);

/// "trains       5130 of 11181642 parameters, 2 of 62 tensors (optimizer.frozen)": lines for the start; none
/// where the deck names no pattern.
std::vector<std::string> describe_patterns(const Config& config, const ArenaLayout& parameters,
                                           const ArenaLayout& statistics);

}  // namespace flotilla
