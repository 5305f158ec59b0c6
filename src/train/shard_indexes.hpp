// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "mpi/core/communicator.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// Collective over `world`. Reads the headers of the shards that have no index, each on one rank; of other
/// kinds of data nothing. A shard that cannot be read is left out: opening the data reports why.
/// @param validation data.validation only; false: data.train too
/// @returns DatasetUse::shard_indexes, equal on all ranks
std::map<std::string, std::string> scan_shards(const DataConfig& data, bool validation,
                                               const mpi::Communicator& world, mpi::Watchdog& watchdog);

}  // namespace flotilla
