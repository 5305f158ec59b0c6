// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "src/data/dataset.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// Assigns a shard of the samples to each worker, unless each is to have its part of every global batch.
/// @throws UserError if a worker gets no samples
Sharding assign_shards(Sharding sharding, const Dataset& data, ShardBy how);

}  // namespace flotilla
