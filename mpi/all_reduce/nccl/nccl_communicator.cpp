// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/nccl/nccl_communicator.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/core/environment.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::chrono::seconds patience_with_calls{1};

CudaStream make_stream(const NativeStream& compute) {
  require(compute.ordinal >= 0, "NCCL on a device without a stream");
  check(cudaSetDevice(compute.ordinal), "cudaSetDevice");
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  // Few blocks that all ranks wait for: they go before those of a layer that no rank waits for yet.
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest),
        "cudaStreamCreateWithPriority");
  return CudaStream(stream);
}

}  // namespace

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
  Communicator ranks;  ///< Calls are announced and compared there
  ncclComm_t handle = nullptr;
  std::shared_timed_mutex mutex{};  ///< Shared while a call uses the handle; alone to give it up
  std::atomic<bool> aborted{false};
  std::optional<AtAbort> at_abort{};
};

NcclCommunicator::NcclCommunicator(const Communicator& group, int ordinal)
    : state_(new State{.ranks = group.collective_clone()}) {
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  ncclUniqueId id{};
  if (group.is_root()) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(id.internal));
  group.broadcast(bytes);
  // An MPI that progresses only inside its calls may still have to pass the id on, and NCCL's ranks wait for
  // each other without calling it.
  group.barrier();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  // Calls that return at once would be finished by a thread that NCCL starts for each of them, and no event
  // could be recorded before. What hangs here is ended by the watchdog all the same.
  config.blocking = 1;
  check(ncclCommInitRankConfig(&state_->handle, size(), id, rank(), &config), "ncclCommInitRankConfig");
  state_->at_abort.emplace([state = state_.get()] {
    state->aborted.store(true);
    // A call that hangs keeps its handle: the process ends all the same.
    const std::unique_lock lock(state->mutex, patience_with_calls);
    if (lock) ncclCommAbort(state->handle);
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
  return state_->ranks.rank();
}
int NcclCommunicator::size() const {
  return state_->ranks.size();
}

CollectiveScope NcclCommunicator::announce(const char* kind, std::size_t count, const CallSite& at) const {
  return {state_->ranks, kind, type_word<float>(), static_cast<std::int64_t>(count), at};
}

NcclHandle NcclCommunicator::handle() const {
  std::shared_lock lock(state_->mutex);
  if (state_->aborted.load()) {
    lock.unlock();
    while (true) pause();  // another thread ends the job
  }
  return {std::move(lock), state_->handle};
}

std::string NcclCommunicator::failure() const {
  // ncclCommAbort may take long, and the watchdog that asks must not wait for it.
  const std::shared_lock lock(state_->mutex, std::try_to_lock);
  if (!lock || state_->aborted.load()) return {};
  ncclResult_t code = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(state_->handle, &code);
  if (asked != ncclSuccess) code = asked;
  return code == ncclSuccess || code == ncclInProgress ? std::string()
                                                       : "NCCL: " + text_of(code, state_->handle);
}

CudaEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return CudaEvent(event);
}

NcclStream::NcclStream(NativeStream compute)
    : compute_(compute), stream_(make_stream(compute)), computed_(make_event()), summed_(make_event()) {}

void NcclStream::mark_device(const CudaEvent& event) const {
  if (compute_.submit) compute_.submit();
  check(cudaEventRecord(event.get(), device()), "cudaEventRecord");
}

// A wait takes the event as it was recorded last: one event serves call after call.
void NcclStream::follow_device() {
  mark_device(computed_);
  check(cudaStreamWaitEvent(stream_.get(), computed_.get(), 0), "cudaStreamWaitEvent");
}

void NcclStream::lead_device() {
  check(cudaEventRecord(summed_.get(), stream_.get()), "cudaEventRecord");
  check(cudaStreamWaitEvent(device(), summed_.get(), 0), "cudaStreamWaitEvent");
}

void NcclStream::wait() const {
  check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
}

}  // namespace flotilla::mpi
