// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// The result of staging on all hosts.
struct Staged {
  std::string folder{};  ///< Path of the copies, equal on every host
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t copied_bytes = 0;  ///< Bytes copied to the host that lacked most
  int copying_hosts = 0;          ///< Hosts that lacked some files
  int hosts = 0;
  double seconds = 0.0;
  std::string left_out{};  ///< StagePlan::left_out, on rank 0
};

std::string describe(
    const Staged& staged);  ///< "4 files, 11.6 MB, in /local/…: copied to 2 of 2 hosts in 0.1 s"

struct StagedData {
  DataConfig data;
  Staged facts;
};

/// Collective. Rank 0 lists the files of training and validation (stage_plan.hpp); then one rank of each host
/// copies it below data.stage_to (stage_files.hpp), all hosts at once, while the other ranks sleep. Progress
/// is printed every 10 s.
/// @param places of all ranks of `workers`
/// @returns the data of the deck, read from the copies
/// @throws AgreedFailure on every rank, naming hosts where it does not concern all
StagedData stage_data(const Config& config, const mpi::Communicator& workers,
                      const std::vector<mpi::Place>& places, mpi::Watchdog& watchdog);

}  // namespace flotilla
