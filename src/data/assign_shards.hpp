// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/data/dataset.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// Gives each worker samples of its own if `how` (data.deal) is "files" or "bytes".
/// @throws UserError if one gets none
Sharding assign_shards(Sharding sharding, const Dataset& data, const std::string& how);

}  // namespace flotilla
