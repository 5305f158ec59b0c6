// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <shared_mutex>
#include <string>
#include <utility>

#include "mpi/all_reduce/nccl/nccl_native.hpp"
#include "mpi/core/collective_scope.hpp"
#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

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
  /// Before a call of `count` floats, and over once it is handed to the device.
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

}  // namespace flotilla::mpi
