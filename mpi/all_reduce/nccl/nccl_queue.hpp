// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/nccl/nccl_stream.hpp"

namespace flotilla::mpi {

/// Collectives that only launch work on a stream of their own: after the device's work so far, and before its
/// work after settle(). Every rank calls from its computing thread, so that all launch in one order.
class NcclQueue : public Collectives {
 public:
  explicit NcclQueue(NativeStream compute) : stream_(compute) {}

  void all_reduce(DeviceSpan<float> data, CallSite at) final {
    stream_.follow_device();
    if (!data.empty()) launch(data, stream_.handle(), at);
  }
  void settle() final { stream_.lead_device(); }
  void wait() final { stream_.wait(); }
  bool queues() const final { return true; }

 private:
  virtual void launch(DeviceSpan<float> data, cudaStream_t stream, const CallSite& at) = 0;

  NcclStream stream_;
};

}  // namespace flotilla::mpi
