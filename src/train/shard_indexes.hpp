// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/data/dataset.hpp"

namespace flotilla {

/// Whether this is the lowest of the ranks with these places that are on its host.
bool is_first_of_host(const std::vector<mpi::Place>& places, int rank);

/// Collective over `world`. check_data_files() on rank 0, then on one rank of each other host.
/// @param places of all ranks of `world`  @throws AgreedFailure on every rank, naming hosts that lack files
void check_data_files_on_hosts(const Config& config, bool validation_only, const mpi::Communicator& world,
                               const std::vector<mpi::Place>& places);

/// Collective over `world`. What all ranks must know of data.train, or with `use.training` false of
/// data.validation, is read once and told by collectives: which files there are, the indexes of shards, the
/// list or the folder of images, and where the samples of click logs begin, of which each rank reads a share
/// unless `use` has them.
/// @param use gets files, shard_indexes, images and clicks, equal on all ranks
/// @throws AgreedFailure on every rank, naming hosts, where a host lacks a file
void read_together(const Config& config, DatasetUse& use, const mpi::Communicator& world,
                   const std::vector<mpi::Place>& places, mpi::Watchdog& watchdog);

}  // namespace flotilla
