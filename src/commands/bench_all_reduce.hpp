// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "mpi/core/communicator.hpp"
#include "src/config/choices.hpp"

namespace flotilla {

struct BenchAllReduceArguments {
  std::size_t min_bytes = 1024;
  std::size_t max_bytes = std::size_t{256} << 20U;
  bool in_place = false;                ///< Only the in-place rows
  DeviceKind device = DeviceKind::cpu;  ///< Device whose memory is summed
  int ranks_per_group = 0;              ///< Of hierarchical algorithms; 0: a group per host
  int communicators = 1;                ///< More than 1: also rows with so many communicators communicators
  std::string json;                     ///< Also as a JSON array of the rows into this file; empty: no
};

/// Collective. `flotilla bench all-reduce`: nccl-tests' columns for MPI_Allreduce and for each algorithm of
/// Flotilla; for another device's memory without MPI_Allreduce.
int bench_all_reduce(const BenchAllReduceArguments& arguments, const mpi::Communicator& world);

}  // namespace flotilla
