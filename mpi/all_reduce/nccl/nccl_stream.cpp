// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/nccl/nccl_stream.hpp"

#include "kernels/error.hpp"

namespace flotilla::mpi {

namespace {

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
