// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "mpi/core/communicator.hpp"

namespace flotilla {

struct BenchAllReduceArguments {
  std::size_t min_bytes = 1024;
  std::size_t max_bytes = std::size_t{256} << 20U;
  bool in_place = false;       ///< Only the in-place rows
  std::string device = "cpu";  ///< In whose memory: "cpu", "cuda", "reference"
  int ranks_per_group = 0;     ///< Of those in groups; 0: a group per host
  int communicators = 1;       ///< More than 1: also rows with so many
  std::string json;            ///< Also as a JSON array of the rows into this file; empty: no
};

/// Collective. `flotilla bench all-reduce`: nccl-tests' columns for MPI's own and for each of ours; in the
/// memory of another device for ours alone.
int bench_all_reduce(const BenchAllReduceArguments& arguments, const mpi::Communicator& world);

}  // namespace flotilla
