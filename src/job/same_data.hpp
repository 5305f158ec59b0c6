// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla {

/// Collective. Refuses data of which the ranks see different numbers of samples (a host with an old copy, a
/// list that is still being written): steps and shards depend on that number and would not match.
/// @param samples on this rank  @param key of the deck that names the data
/// @throws AgreedFailure on every rank, naming the first rank that differs from rank 0
void check_same_data(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
                     std::int64_t samples, std::string_view key);

}  // namespace flotilla
