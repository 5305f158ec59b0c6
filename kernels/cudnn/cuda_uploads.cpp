// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/cuda_uploads.hpp"

#include <algorithm>
#include <utility>

namespace flotilla {

namespace {

constexpr std::size_t small_floats = 1U << 14U;  // labels of a batch, a layer's weights at the start

void record(const Event& event, cudaStream_t stream) {
  check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
}

/// What is handed to the stream from now on starts after the event as it was last recorded, if it was.
void wait(cudaStream_t stream, const Event& event) {
  check(cudaStreamWaitEvent(stream, event.get(), 0), "cudaStreamWaitEvent");
}

void wait(const Event& event) {
  check(cudaEventSynchronize(event.get()), "cudaEventSynchronize");
}

void copy_floats(const float* host, DeviceSpan<float> to, cudaStream_t stream) {
  check(cudaMemcpyAsync(to.address(), host, to.size() * sizeof(float), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
}

bool is_page_locked(const void* memory) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeHost;
}

}  // namespace

CudaUploads::CudaUploads(CudaMemory memory) : memory_(std::move(memory)), beside_(new_stream()) {
  for (Small& slot : small_) slot = {memory_.pinned(small_floats), new_event()};
  for (Batch& slot : batches_) slot = {{}, {}, new_event(), new_event()};
}

void CudaUploads::copy(std::span<const float> host, DeviceSpan<float> to) {
  if (host.empty()) return;
  if (host.size() > small_floats) {
    copy_floats(host.data(), to, memory_.stream());
    check(cudaStreamSynchronize(memory_.stream()), "cudaStreamSynchronize");
    return;
  }
  Small& slot = small_[next_small_];
  next_small_ = (next_small_ + 1) % small_.size();
  wait(slot.copied);  // Long since: it was seven copies ago.
  float* const pinned = slot.pinned.span().address();
  std::copy(host.begin(), host.end(), pinned);
  copy_floats(pinned, to, memory_.stream());
  record(slot.copied, memory_.stream());
}

const float* CudaUploads::page_locked(Batch& slot, std::span<const float> host) {
  if (is_page_locked(host.data())) return host.data();
  wait(slot.copied);
  if (slot.pinned.size() < host.size()) slot.pinned = memory_.pinned(host.size());
  float* const pinned = slot.pinned.span().address();
  std::copy(host.begin(), host.end(), pinned);
  return pinned;
}

DeviceSpan<const float> CudaUploads::batch(std::span<const float> host) {
  // Whoever reads the batch before this one has been handed out by now.
  record(batches_[1 - next_batch_].read, memory_.stream());
  Batch& slot = batches_[next_batch_];
  next_batch_ = 1 - next_batch_;
  if (slot.device.size() < host.size()) {
    slot.device = memory_.allocate(host.size());
    record(slot.read, memory_.stream());
  }
  wait(beside_.get(), slot.read);
  const DeviceSpan<float> to = slot.device.span().subspan(0, host.size());
  copy_floats(page_locked(slot, host), to, beside_.get());
  record(slot.copied, beside_.get());
  wait(memory_.stream(), slot.copied);
  return to;
}

void CudaUploads::finish() {
  for (const Batch& slot : batches_) wait(slot.copied);
}

}  // namespace flotilla
