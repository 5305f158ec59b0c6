// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/device.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

std::string nccl_version();  ///< "2.28.9", of the library that was loaded, or "not built in".
bool has_nccl();             ///< Whether this build has NCCL; if not, the functions below throw UserError.

// Sums in the memory of NVIDIA's GPUs, one GPU for each rank. `stream`: what the device computes on
// (DeviceQueue::native_stream). Those that queue (Collectives::queues) use a stream of their own, ordered
// after the device's work before all_reduce().

/// "nccl": one ncclAllReduce over all ranks of `group`. Queues. Collective.
std::unique_ptr<Collectives> make_nccl_all_reduce(const Communicator& group, NativeStream stream);

/// "nccl-hierarchical": reduce-scatter inside the group, all-reduce across groups by every member on its
/// part, all-gather inside, all by NCCL. `group`: this rank's part of `world`; all groups must have as many
/// members (groups_are_equal). Queues. Collective.
std::unique_ptr<Collectives> make_nccl_hierarchical_all_reduce(const Communicator& world,
                                                               const Communicator& group,
                                                               NativeStream stream);

/// "nccl-mpi": reduce-scatter and all-gather inside the group by NCCL, all-reduce across groups by MPI in
/// host memory, for networks that NCCL cannot use well; `wire` is used across groups. Does not queue.
/// `staging`: memory that copies to and from the device are fast with (DeviceMemory::pinned), for
/// EvenSlices(floats, group.size()).most() of an array. Collective.
std::unique_ptr<Collectives> make_nccl_over_mpi_all_reduce(const Communicator& world,
                                                           const Communicator& group, NativeStream stream,
                                                           Storage staging, Wire wire = Wire::float32);

/// Sums small arrays of all ranks in the memory of their devices, in the midst of computing.
class DeviceSums {
 public:
  virtual ~DeviceSums() = default;
  /// Collective. values[i] ← Σ over ranks of values[i], ordered between the work that was submitted to the
  /// device before and what is queued on it next. Returns at once.   @param at the same on all ranks
  virtual void all_reduce(DeviceSpan<double> values, CallSite at = {}) = 0;
  /// An asynchronous error, in the library's words; empty: none. Safe from another thread.
  virtual std::string failure() const = 0;
};

/// All-reduces by NCCL, on the stream that the device computes on (DeviceQueue::native_stream), over a
/// communicator of its own. NCCL requires the operations of several communicators in one order on all ranks:
/// the caller orders those on other streams before (Collectives::wait_on_stream); those launched later, which
/// follow the device's work, come after. Collective. @throws UserError in a build without NCCL
std::unique_ptr<DeviceSums> make_nccl_sums(const Communicator& group, NativeStream stream);

}  // namespace flotilla::mpi
