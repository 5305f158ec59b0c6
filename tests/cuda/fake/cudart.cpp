// SPDX-License-Identifier: Apache-2.0
// As much of the CUDA runtime as Flotilla calls, on the host: everything is done when a call returns. It
// counts what is not given back, and refuses what the real one would refuse.
#include "tests/cuda/fake/cudart.hpp"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t large = 1U << 24U;
constexpr std::size_t total_memory = std::size_t{4} << 30U;

std::mutex guard;  // pinned memory and lanes are of several threads
std::map<const void*, std::size_t> on_device;
std::map<const void*, std::size_t> page_locked;
std::size_t device_bytes = 0;
int handles = 0;
thread_local int gpu = 0;

using Works = std::vector<std::function<void()>>;
thread_local Works* captured = nullptr;
flotilla::fake::Done account;  // of the computing thread

/// What a stream does not do while it is captured.
cudaError_t unless_capturing(cudaError_t status = cudaSuccess) {
  return captured == nullptr ? status : cudaErrorStreamCaptureUnsupported;
}

void* new_memory(std::map<const void*, std::size_t>& memories, std::size_t bytes) {
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  // NaN: who reads what nobody wrote finds out. Not where it is for scratch.
  if (bytes < large) std::memset(memory, 0xFF, bytes);
  const std::lock_guard lock(guard);
  memories[memory] = bytes;
  return memory;
}

bool free_memory(std::map<const void*, std::size_t>& memories, void* memory, std::size_t* bytes = nullptr) {
  const std::lock_guard lock(guard);
  const auto found = memories.find(memory);
  if (found == memories.end()) return false;
  if (bytes != nullptr) *bytes = found->second;
  memories.erase(found);
  std::free(memory);
  return true;
}

/// Whether [memory, memory + bytes) lies in one allocation.
bool lies_in(const std::map<const void*, std::size_t>& memories, const void* memory, std::size_t bytes) {
  const std::lock_guard lock(guard);
  auto after = memories.upper_bound(memory);
  if (after == memories.begin()) return false;
  --after;
  const auto offset =
      static_cast<std::size_t>(static_cast<const char*>(memory) - static_cast<const char*>(after->first));
  return offset + bytes <= after->second;
}

template <class Handle>
cudaError_t make(Handle* handle) {
  const std::lock_guard lock(guard);
  ++handles;
  *handle = reinterpret_cast<Handle>(new char);
  return cudaSuccess;
}

template <class Handle>
cudaError_t destroy(Handle handle) {
  const std::lock_guard lock(guard);
  --handles;
  delete reinterpret_cast<char*>(handle);
  return cudaSuccess;
}

}  // namespace

namespace flotilla::fake {

bool is_device_memory(const void* memory, std::size_t bytes) {
  return lies_in(on_device, memory, bytes);
}
std::size_t left_over() {
  const std::lock_guard lock(guard);
  return on_device.size() + page_locked.size() + static_cast<std::size_t>(handles);
}

void in_stream(std::function<void()> work) {
  if (captured != nullptr) return captured->push_back(std::move(work));
  ++account.alone;
  work();
}
Done done() {
  return account;
}

}  // namespace flotilla::fake

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int ordinal) {
  if (ordinal < 0 || ordinal >= 2) return cudaErrorInvalidDevice;
  gpu = ordinal;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* ordinal) {
  *ordinal = gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "no GPU, its calls on the host");
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int room, int ordinal) {
  std::snprintf(id, static_cast<std::size_t>(room), "0000:%02x:00.0", ordinal + 1);
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaErrorFake";
}
const char* cudaGetErrorString(cudaError_t) {
  return "an error of the fake runtime";
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = total_memory - device_bytes;
  *total = total_memory;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int) {
  return make(stream);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  return make(stream);
}
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t work, void* data) {
  work(data);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return destroy(stream);
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return unless_capturing();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned int) {
  return unless_capturing();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode mode) {
  if (captured != nullptr || mode != cudaStreamCaptureModeThreadLocal) return cudaErrorIllegalState;
  captured = new Works;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  if (captured == nullptr) return cudaErrorIllegalState;
  *graph = reinterpret_cast<cudaGraph_t>(std::exchange(captured, nullptr));
  const std::lock_guard lock(guard);
  ++handles;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<Works*>(graph);
  const std::lock_guard lock(guard);
  --handles;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  *made = reinterpret_cast<cudaGraphExec_t>(new Works(*reinterpret_cast<const Works*>(graph)));
  const std::lock_guard lock(guard);
  ++handles;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  return cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(graph));
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  if (captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  const Works& works = *reinterpret_cast<const Works*>(graph);
  for (const auto& work : works) work();
  account.in_graphs += static_cast<std::int64_t>(works.size());
  ++account.graphs;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  return make(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return destroy(event);
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return unless_capturing();
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return unless_capturing();
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  return make(pool);
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return destroy(pool);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t, cudaStream_t) {
  if (captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  if (device_bytes + bytes > total_memory) return cudaErrorMemoryAllocation;
  device_bytes += bytes;
  *memory = new_memory(on_device, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  std::size_t bytes = 0;
  if (!free_memory(on_device, memory, &bytes)) return cudaErrorInvalidValue;
  device_bytes -= bytes;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int) {
  *memory = new_memory(page_locked, bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  return free_memory(page_locked, memory) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned int) {
  const std::lock_guard lock(guard);
  return page_locked.emplace(memory, bytes).second ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
}
cudaError_t cudaHostUnregister(void* memory) {
  const std::lock_guard lock(guard);
  return page_locked.erase(memory) == 1 ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  attributes->type = lies_in(on_device, memory, 1)     ? cudaMemoryTypeDevice
                     : lies_in(page_locked, memory, 1) ? cudaMemoryTypeHost
                                                       : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  if (captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  if (!lies_in(on_device, memory, bytes)) return cudaErrorInvalidValue;
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t) {
  if (captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  const void* const there = kind == cudaMemcpyHostToDevice ? to : from;
  const void* const here = kind == cudaMemcpyHostToDevice ? from : to;
  if (bytes > 0 && (!lies_in(on_device, there, bytes) || lies_in(on_device, here, 1)))
    return cudaErrorInvalidValue;
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

}  // extern "C"
