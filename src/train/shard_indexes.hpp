// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/data/dataset.hpp"

namespace flotilla {

struct Machine;

/// Collective over `world`. check_data_files() on rank 0, then on one rank of each other host.
/// @param places of all ranks of `world`  @throws AgreedFailure on every rank, naming hosts that lack files
void check_data_files_on_hosts(const Config& config, bool validation_only, const mpi::Communicator& world,
                               const std::vector<mpi::Place>& places);

/// Collective over `world`. Reads the headers of the shards that have no index, each on one rank; of other
/// kinds of data nothing. A shard that cannot be read is left out: opening the data reports why.
/// @param validation data.validation only; false: data.train too
/// @returns DatasetUse::shard_indexes, equal on all ranks
std::map<std::string, std::string> scan_shards(const DataConfig& data, bool validation,
                                               const mpi::Communicator& world, mpi::Watchdog& watchdog);

/// Collective over the workers. Worker 0 reads the list or the folder of images of data.train, or with
/// `use.training` false of data.validation, and the others are told. Where another host lacks the images it
/// fails, naming the host.
/// @returns DatasetUse::images, equal on all workers; null for other kinds of data, and without such data
/// @throws AgreedFailure on every worker
std::shared_ptr<const ImageList> read_image_list_once(const Config& config, const DatasetUse& use,
                                                      const Machine& machine);

/// Collective over `world`. Worker 0 finds and recognises the click logs of data.train, or with
/// `use.training` false of data.validation; then each rank opens them and reads its share of their bytes.
/// @returns DatasetUse::clicks, equal on all ranks; null for other kinds of data, and without such data
/// @throws AgreedFailure on every rank, naming hosts, where a host lacks a file
std::shared_ptr<const ClickLogs> read_clicks_together(const Config& config, const DatasetUse& use,
                                                      const mpi::Communicator& world,
                                                      const std::vector<mpi::Place>& places,
                                                      mpi::Watchdog& watchdog);

}  // namespace flotilla
