// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/uploads.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace flotilla {

namespace {

constexpr std::size_t small_floats = 1U << 14U;  // labels of a batch, a layer's weights at the start

void record(const Event& event, cudaStream_t stream) {
  check(cudaEventRecord(event.get(), stream), "cudaEventRecord");
}

/// Work on the stream from now on starts after the last recording of the event, if there was one.
void wait(cudaStream_t stream, const Event& event) {
  check(cudaStreamWaitEvent(stream, event.get(), 0), "cudaStreamWaitEvent");
}

void wait(const Event& event) {
  check(cudaEventSynchronize(event.get()), "cudaEventSynchronize");
}

void copy_bytes(const void* host, void* to, std::size_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
}

std::size_t floats_for(std::span<const std::byte> bytes) {
  return (bytes.size() + sizeof(float) - 1) / sizeof(float);
}

bool is_page_locked(const void* memory) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeHost;
}

}  // namespace

CudaUploads::CudaUploads(CudaMemory memory) : memory_(std::move(memory)), beside_(new_stream()) {
  for (Small& slot : small_) slot = {memory_.pinned(small_floats), new_awaited_event()};
  for (Batch& slot : batches_) slot = {{}, {}, new_awaited_event(), new_event()};
}

CudaUploads::~CudaUploads() {
  if (std::uncaught_exceptions() > 0) return;
  for (const Small& slot : small_) cudaEventSynchronize(slot.copied.get());
  for (const Batch& slot : batches_) cudaEventSynchronize(slot.copied.get());
}

void CudaUploads::copy(std::span<const float> host, DeviceSpan<float> to) {
  if (host.empty()) return;
  if (host.size() > small_floats) {
    copy_bytes(host.data(), to.address(), host.size_bytes(), memory_.stream());
    check(cudaStreamSynchronize(memory_.stream()), "cudaStreamSynchronize");
    return;
  }
  Small& slot = small_[next_small_];
  next_small_ = (next_small_ + 1) % small_.size();
  wait(slot.copied);  // Long since: it was seven copies ago.
  float* const pinned = slot.pinned.span().address();
  std::copy(host.begin(), host.end(), pinned);
  copy_bytes(pinned, to.address(), host.size_bytes(), memory_.stream());
  record(slot.copied, memory_.stream());
}

const void* CudaUploads::page_locked(Batch& slot, std::span<const std::byte> host) {
  if (is_page_locked(host.data())) return host.data();
  wait(slot.copied);
  if (slot.pinned.size() < floats_for(host)) slot.pinned = memory_.pinned(floats_for(host));
  float* const pinned = slot.pinned.span().address();
  std::memcpy(pinned, host.data(), host.size());
  return pinned;
}

const void* CudaUploads::copied(std::span<const std::byte> host) {
  // All work that reads the batch before this one has been queued by now.
  record(batches_[1 - next_batch_].read, memory_.stream());
  Batch& slot = batches_[next_batch_];
  next_batch_ = 1 - next_batch_;
  if (slot.device.size() < floats_for(host)) {
    slot.device = memory_.allocate(floats_for(host));
    record(slot.read, memory_.stream());
  }
  wait(beside_.get(), slot.read);
  float* const to = slot.device.span().address();
  copy_bytes(page_locked(slot, host), to, host.size(), beside_.get());
  record(slot.copied, beside_.get());
  wait(memory_.stream(), slot.copied);
  return to;
}

void CudaUploads::finish() {
  for (const Batch& slot : batches_) wait(slot.copied);
}

}  // namespace flotilla
