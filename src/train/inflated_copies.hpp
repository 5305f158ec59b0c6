// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// The inflated copies of a host's gzip files of samples (IDX, click logs), of deflated arrays of .npz files
/// and of chunks of HDF5 files that are read in shuffled order and exceed data.cache_mb, one for all ranks of
/// the host. A copy has no name: it vanishes when the last rank closes it, however the ranks end.
struct InflatedCopies {
  /// Collective over `world`. The first rank of each host inflates the files into temporary_folder(), alone;
  /// other kinds of data have no copies.
  /// @param validation data.validation only; false: data.train too  @param places of all ranks of `world`
  /// @param host the ranks of `world` on this host
  /// @throws AgreedFailure on every rank, naming hosts where it does not concern all
  InflatedCopies(const DataConfig& data, bool validation, const mpi::Communicator& world,
                 const mpi::Communicator& host, const std::vector<mpi::Place>& places,
                 mpi::Watchdog& watchdog);

  std::vector<File> files;  ///< On a host's first rank: to be kept until all ranks have opened theirs
  std::map<std::string, std::string> handles;  ///< DatasetUse::inflated
};

}  // namespace flotilla
