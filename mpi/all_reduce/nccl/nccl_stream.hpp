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
  /// The event is what the device was handed so far.
  void mark_device(const CudaEvent& event) const;
  /// What comes onto this stream from now on waits for what the device was handed so far.
  void follow_device();
  /// What the device is handed from now on waits for what is on this stream.
  void lead_device();
  /// The host waits.
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
