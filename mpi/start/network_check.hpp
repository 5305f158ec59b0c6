// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "mpi/start/network_verdict.hpp"

namespace flotilla::mpi {

/// Measurements of the network between the hosts.
struct NetworkReport {
  NetworkVerdict verdict;
  int hosts = 0;
  std::size_t pairs = 0;  ///< Number of pairs of hosts that were measured
  double seconds = 0.0;
};

/// Collective, with two hosts or more. One rank of each host measures latency and bandwidth to others, in
/// pairs, for about half a second whatever their number; outliers are measured again, alone, up to five times
/// or for another second. The other ranks sleep meanwhile. The call hangs if a link does.
/// @param beat called before each round, with its number
/// @returns rank 0's report, on every rank
NetworkReport check_network(const Communicator& world, const std::vector<Place>& places,
                            const std::function<void(int)>& beat);

}  // namespace flotilla::mpi
