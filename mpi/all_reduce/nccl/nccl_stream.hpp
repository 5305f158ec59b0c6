// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device.hpp"
#include "mpi/all_reduce/nccl/nccl_native.hpp"

namespace flotilla::mpi {

/// A stream beside the one that a device computes on, and the order between the two.
class NcclStream {
 public:
  /// @throws InternalError where the device has no stream
  explicit NcclStream(NativeStream compute);

  int ordinal() const { return compute_.ordinal; }
  cudaStream_t handle() const { return stream_.get(); }
  /// Records the event after the device's work so far.
  void mark_device(const CudaEvent& event) const;
  /// Work on this stream from now on waits for the device's work so far.
  void follow_device();
  /// The device's work from now on waits for the work on this stream so far.
  void lead_device();
  /// The host waits for the work on this stream.
  void wait() const;

 private:
  cudaStream_t device() const { return static_cast<cudaStream_t>(compute_.handle); }

  NativeStream compute_;
  CudaStream stream_;
  CudaEvent computed_;
  CudaEvent summed_;
};

CudaEvent make_event();  ///< For order only: takes no time stamps.

}  // namespace flotilla::mpi
