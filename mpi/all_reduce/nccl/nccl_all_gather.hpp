// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/device.hpp"
#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// Gathers small arrays of all ranks in the memory of their devices, in the midst of computing.
class DeviceAllGather {
 public:
  virtual ~DeviceAllGather() = default;
  /// Collective. all = every rank's `mine` in rank order, ordered between the work that was submitted to the
  /// device before and what is queued on it next. Returns at once.   all (ranks, mine.size())
  /// @param at the same on all ranks
  virtual void all_gather(DeviceSpan<const float> mine, DeviceSpan<float> all, CallSite at = {}) = 0;
  /// An asynchronous error, in the library's words; empty: none. Safe from another thread.
  virtual std::string failure() const = 0;
};

/// By NCCL, on the stream itself that the device computes on (DeviceQueue::native_stream), over a
/// communicator of its own. NCCL wants the operations of several communicators in one order on all ranks: the
/// caller orders those on other streams before (Collectives::settle); those launched later, which follow the
/// device's work, come behind. Collective. @throws UserError in a build without NCCL
std::unique_ptr<DeviceAllGather> make_nccl_all_gather(const Communicator& group, NativeStream stream);

}  // namespace flotilla::mpi
