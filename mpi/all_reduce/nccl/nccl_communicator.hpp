// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <memory>
#include <shared_mutex>
#include <source_location>
#include <string>
#include <utility>

#include "kernels/device.hpp"
#include "kernels/owned.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

// Private to mpi/all_reduce/nccl/nccl_*: functions that need the vendor's headers.

/// @throws LibraryError with NCCL's own text unless `code` is ncclSuccess. `communicator`: whose last error
/// is reported; null: the last of all.
void check(ncclResult_t code, const char* call, ncclComm_t communicator = nullptr,
           std::source_location at = std::source_location::current());

/// @throws LibraryError with CUDA's own text unless `code` is cudaSuccess.
void check(cudaError_t code, const char* call, std::source_location at = std::source_location::current());

/// "remote process exited or there was a network error: <what NCCL logged last>"
std::string text_of(ncclResult_t code, ncclComm_t communicator);

using CudaStream = Owned<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = Owned<cudaEvent_t, cudaEventDestroy>;

/// A handle that is not given up while this exists.
class NcclHandle {
 public:
  NcclHandle(std::shared_lock<std::shared_timed_mutex> lock, ncclComm_t handle)
      : lock_(std::move(lock)), handle_(handle) {}
  operator ncclComm_t() const { return handle_; }  // NOLINT(google-explicit-constructor)

 private:
  std::shared_lock<std::shared_timed_mutex> lock_;
  ncclComm_t handle_;
};

/// NCCL's counterpart of a Communicator: the same ranks, each with a GPU of its own. Its operations are
/// aborted when the job is (abort_job).
class NcclCommunicator {
 public:
  /// Collective over `group`. `ordinal`: this rank's GPU.
  NcclCommunicator(const Communicator& group, int ordinal);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator();  ///< Waits for its operations; does nothing while an exception is being thrown.

  int rank() const;
  int size() const;
  /// Announces a call of `count` floats; its scope ends once the call is handed to the device.
  CollectiveScope announce(const char* kind, std::size_t count, const CallSite& at) const;
  /// The handle for calls, which stays valid as long as the returned object lives. Does not return once the
  /// job is being aborted.
  NcclHandle handle() const;
  /// An asynchronous error (ncclCommGetAsyncError); empty: none. Safe from another thread.
  std::string failure() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A stream in addition to the one that a device computes on, and the order between the two.
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
