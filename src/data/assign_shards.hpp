// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/data/dataset.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// Assigns a shard of the samples to each worker if `how` (data.deal) is "files" or "bytes".
/// @throws UserError if a worker gets no samples
Sharding assign_shards(Sharding sharding, const Dataset& data, const std::string& how);

}  // namespace flotilla
