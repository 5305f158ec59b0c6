// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/memory.hpp"

#include <atomic>
#include <cstring>
#include <limits>

#include "kernels/error.hpp"
#include "kernels/gpu/work.hpp"

namespace flotilla {

namespace {

MemoryPool new_pool(int ordinal) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;  // the only kind: it stays where it is
  properties.location = {.type = cudaMemLocationTypeDevice, .id = ordinal};
  MemoryPool pool = created<MemoryPool>("cudaMemPoolCreate", cudaMemPoolCreate, &properties);
  // Memory given back stays with the process: a batch of another size takes it again.
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool.get(), cudaMemPoolAttrReleaseThreshold, &keep),
        "cudaMemPoolSetAttribute");
  return pool;
}

std::int64_t mebibytes(std::size_t bytes) {
  return static_cast<std::int64_t>(bytes >> 20U);
}

[[noreturn]] void refuse(std::size_t bytes) {
  cudaGetLastError();  // Taken note of: the next check is not to find it.
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  throw UserError(cat("the GPU has no room for ", mebibytes(bytes), " MiB more: ", mebibytes(free),
                      " of its ", mebibytes(total),
                      " MiB are free; make train.batch_size smaller, or let model.recompute save memory"));
}

}  // namespace

struct CudaMemory::Queue {
  explicit Queue(int of) : ordinal(of), stream(new_stream()), pool(new_pool(of)) {}

  int ordinal;
  Stream stream;
  MemoryPool pool;
  WorkQueue* kept_back = nullptr;
  std::atomic<std::int64_t> bytes{0};
};

CudaMemory::CudaMemory(int ordinal) {
  // A thread that waits for the GPU sleeps, so that loaders and other ranks have its core.
  check(cudaInitDevice(ordinal, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid),
        "cudaInitDevice");
  check(cudaSetDevice(ordinal), "cudaSetDevice");
  queue_ = std::make_shared<Queue>(ordinal);
}

int CudaMemory::ordinal() const {
  return queue_->ordinal;
}
cudaStream_t CudaMemory::stream() const {
  if (queue_->kept_back != nullptr) queue_->kept_back->submit();
  return bare_stream();
}
cudaStream_t CudaMemory::bare_stream() const {
  return queue_->stream.get();
}
void CudaMemory::keep_back(WorkQueue* queue) const {
  queue_->kept_back = queue;
}
std::int64_t CudaMemory::allocated_bytes() const {
  return queue_->bytes;
}

Storage CudaMemory::scratch(std::size_t count) const {
  if (count == 0) return {};
  const WorkQueue* const kept = queue_->kept_back;
  require(kept == nullptr || !kept->recording(),
          "work that repeats itself asks for memory when it is recorded (device.graphs = true)");
  const std::size_t bytes = count * sizeof(float);
  void* memory = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&memory, bytes, queue_->pool.get(), stream());
  if (status == cudaErrorMemoryAllocation) refuse(bytes);
  check(status, "cudaMallocFromPoolAsync");
  const auto signed_bytes = static_cast<std::int64_t>(bytes);
  queue_->bytes += signed_bytes;
  return {static_cast<float*>(memory), count, [queue = queue_, signed_bytes](float* address) {
            if (queue->kept_back != nullptr) queue->kept_back->before_release();
            cudaFreeAsync(address, queue->stream.get());
            queue->bytes -= signed_bytes;
          }};
}

Storage CudaMemory::allocate(std::size_t count) const {
  Storage storage = scratch(count);
  if (count > 0)
    check(cudaMemsetAsync(storage.span().address(), 0, count * sizeof(float), stream()), "cudaMemsetAsync");
  return storage;
}

Storage CudaMemory::pinned(std::size_t count) const {
  if (count == 0) return {};
  const std::size_t bytes = count * sizeof(float);
  check(cudaSetDevice(ordinal()), "cudaSetDevice");  // The calling thread may be any.
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc");
  std::memset(memory, 0, bytes);
  return {static_cast<float*>(memory), count, [](float* address) { cudaFreeHost(address); }};
}

Storage CudaMemory::pin(std::span<float> host) const {
  if (host.empty()) return {};
  check(cudaSetDevice(ordinal()), "cudaSetDevice");
  check(cudaHostRegister(host.data(), host.size_bytes(), cudaHostRegisterPortable), "cudaHostRegister");
  return {host.data(), host.size(), [](float* address) { cudaHostUnregister(address); }};
}

}  // namespace flotilla
