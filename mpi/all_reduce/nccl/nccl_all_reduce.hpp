// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/device.hpp"
#include "mpi/all_reduce/collectives.hpp"

namespace flotilla::mpi {

std::string nccl_version();  ///< "2.28.9", of the library that was loaded, or "not built in".
bool has_nccl();             ///< Whether the following work in this build. Else they throw UserError.

// Sums in the memory of NVIDIA's GPUs, one GPU for each rank. `stream`: what the device computes on
// (Device::native_stream). Those that queue (Collectives::queues) put themselves behind what that was handed
// before all_reduce(), on a stream of their own.

/// "nccl": NCCL finds the ways between all ranks of `group` itself. Queues. Collective.
std::unique_ptr<Collectives> make_nccl_all_reduce(const Communicator& group, NativeStream stream);

/// "nccl-hierarchical": reduce-scatter inside the group, all-reduce across groups by every member on its
/// part, all-gather inside, all by NCCL. `group`: this rank's part of `world`; all groups must have as many
/// members (groups_are_equal). Queues. Collective.
std::unique_ptr<Collectives> make_nccl_hierarchical_all_reduce(const Communicator& world,
                                                               const Communicator& group,
                                                               NativeStream stream);

/// "nccl-mpi": the same with MPI across groups, in memory of the host, where NCCL has no network between
/// hosts that is worth it; `wire` is used there. Does not queue. `staging`: memory that copies to and from
/// the device are fast with (Device::pinned), for EvenSlices(floats, group.size()).most() of an array.
/// Collective.
std::unique_ptr<Collectives> make_nccl_over_mpi_all_reduce(const Communicator& world,
                                                           const Communicator& group, NativeStream stream,
                                                           Storage staging, Wire wire = Wire::float32);

}  // namespace flotilla::mpi
