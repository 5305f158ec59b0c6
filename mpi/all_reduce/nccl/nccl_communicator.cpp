// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/nccl/nccl_communicator.hpp"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <optional>
#include <span>

#include "kernels/error.hpp"
#include "mpi/core/at_abort.hpp"

namespace flotilla::mpi {

std::string text_of(ncclResult_t code, ncclComm_t communicator) {
  std::string text = ncclGetErrorString(code);
  const char* const last = ncclGetLastError(communicator);
  if (last != nullptr && *last != '\0') text += cat(": ", last);
  return text;
}

void check(ncclResult_t code, const char* call, ncclComm_t communicator, std::source_location at) {
  if (code != ncclSuccess) throw LibraryError(call, text_of(code, communicator), at);
}

void check(cudaError_t code, const char* call, std::source_location at) {
  if (code != cudaSuccess) throw LibraryError(call, cudaGetErrorString(code), at);
}

struct NcclCommunicator::State {
  int rank = 0;
  int size = 1;
  ncclComm_t handle = nullptr;
  std::atomic<bool> aborted{false};
  std::optional<AtAbort> at_abort{};
};

NcclCommunicator::NcclCommunicator(const Communicator& group, int ordinal)
    : state_(std::make_unique<State>()) {
  state_->rank = group.rank();
  state_->size = group.size();
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  ncclUniqueId id{};
  if (group.is_root()) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(id.internal));
  group.broadcast(bytes);
  // An MPI that goes on only inside its calls may still have to pass the id on, and NCCL's ranks wait for
  // each other without calling it.
  group.barrier();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Calls that return at once would be finished by a thread that NCCL starts for each of them, and no event
  // could be recorded before. What hangs here is ended by the watchdog all the same.
  config.blocking = 1;
  check(ncclCommInitRankConfig(&state_->handle, state_->size, id, state_->rank, &config),
        "ncclCommInitRankConfig");
  state_->at_abort.emplace([state = state_.get()] {
    // Only from here on: what NCCL frees, no call may use any more.
    state->aborted.store(true);
    ncclCommAbort(state->handle);
  });
}

NcclCommunicator::~NcclCommunicator() {
  if (std::uncaught_exceptions() > 0) {
    state_.release();  // abort_job() gives it up
    return;
  }
  state_->at_abort.reset();
  ncclCommDestroy(state_->handle);
}

int NcclCommunicator::rank() const {
  return state_->rank;
}
int NcclCommunicator::size() const {
  return state_->size;
}

ncclComm_t NcclCommunicator::handle() const {
  while (state_->aborted.load()) pause();  // another thread ends the job
  return state_->handle;
}

std::string NcclCommunicator::failure() const {
  if (state_->aborted.load()) return {};
  ncclResult_t code = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(state_->handle, &code);
  if (asked != ncclSuccess) code = asked;
  return code == ncclSuccess || code == ncclInProgress ? std::string()
                                                       : "NCCL: " + text_of(code, state_->handle);
}

}  // namespace flotilla::mpi
