// SPDX-License-Identifier: Apache-2.0
// As much of the CUDA runtime as Flotilla calls, on the host, with what a stream is handed done as late and
// in as odd an order as CUDA allows (queues.hpp). It counts what is not given back, and refuses what the real
// one would refuse.
#include "tests/cuda/fake/cudart.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/cuda/fake/memory.hpp"
#include "tests/cuda/fake/queues.hpp"
#include "tests/cuda/fake/sites.hpp"

namespace {

using flotilla::fake::Place;
using flotilla::fake::Works;

std::atomic<std::size_t> handles{0};
thread_local int gpu = 0;
std::atomic<bool> sleeps_in_streams{false};  // A process uses one GPU.
flotilla::fake::Done account;                // of the computing thread
std::atomic<std::int64_t> waits{0};

/// What a thread does not do while it captures.
cudaError_t unless_capturing(cudaError_t status = cudaSuccess) {
  const cudaError_t refused = flotilla::fake::refuse_in_capture();
  return refused == cudaSuccess ? status : refused;
}

/// FLOTILLA_FAKE_GPUS; 2 where it is not set.
int gpus() {
  static const char* const text = std::getenv("FLOTILLA_FAKE_GPUS");
  return text == nullptr ? 2 : std::atoi(text);
}

/// An event, and whether a thread that waits for it sleeps.
struct RecordedEvent {
  Place place{};
  bool sleeps = false;
};

RecordedEvent& of(cudaEvent_t event) {
  return *reinterpret_cast<RecordedEvent*>(event);
}

template <class Handle, class Made>
cudaError_t make(Handle* handle, Made* made) {
  ++handles;
  *handle = reinterpret_cast<Handle>(made);
  return cudaSuccess;
}

/// docs/gpu.md promises that a thread sleeps while it waits for the GPU.
void refuse_spinning(bool sleeps, const char* what) {
  if (sleeps) return;
  std::fprintf(stderr, "the fake GPU: a thread that waits for %s would spin\n", what);
  std::abort();
}

struct Executable {
  Works works{};
  Place launched{};  ///< Behind the last launch
};

template <class Made, class Handle>
cudaError_t destroy(Handle handle) {
  --handles;
  delete reinterpret_cast<Made*>(handle);
  return cudaSuccess;
}

cudaError_t made_stream(cudaStream_t* stream) {
  ++handles;
  *stream = flotilla::fake::make_stream();
  return cudaSuccess;
}

}  // namespace

namespace flotilla::fake {

std::size_t left_over() {
  return allocations() + handles;
}

void in_stream(cudaStream_t stream, std::function<void()> work) {
  if (!capturing()) ++account.alone;
  put(stream, std::move(work));
}
Done done() {
  Done all = account;
  all.waits = waits;
  return all;
}

}  // namespace flotilla::fake

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int ordinal) {
  if (ordinal < 0 || ordinal >= gpus()) return cudaErrorInvalidDevice;
  gpu = ordinal;
  return cudaSuccess;
}
cudaError_t cudaInitDevice(int ordinal, unsigned int device_flags, unsigned int flags) {
  if (ordinal < 0 || ordinal >= gpus()) return cudaErrorInvalidDevice;
  if (flags == cudaInitDeviceFlagsAreValid)
    sleeps_in_streams = device_flags == cudaDeviceScheduleBlockingSync;
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
  *free = flotilla::fake::free_device_bytes();
  *total = flotilla::fake::total_device_bytes();
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return flags == cudaStreamNonBlocking ? made_stream(stream) : cudaErrorInvalidValue;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
/// Called by the fake NCCL only.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t work, void* data) {
  const bool ordered = flotilla::fake::put_meeting(stream, [work, data] { work(data); });
  return ordered ? cudaSuccess : cudaErrorNotPermitted;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  --handles;
  flotilla::fake::forget_returned(stream);
  flotilla::fake::destroy_stream(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (flotilla::fake::left_out("cudaStreamSynchronize")) return cudaSuccess;
  ++waits;
  refuse_spinning(sleeps_in_streams, "a stream");
  const cudaError_t status = unless_capturing();
  if (status == cudaSuccess) flotilla::fake::finish(flotilla::fake::place_of(stream));
  return status;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (flotilla::fake::left_out("cudaStreamWaitEvent")) return cudaSuccess;
  const cudaError_t status = unless_capturing();
  if (status == cudaSuccess) flotilla::fake::put_wait(stream, of(event).place);
  return status;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (mode != cudaStreamCaptureModeThreadLocal) return cudaErrorIllegalState;
  return flotilla::fake::begin_capture(stream) ? cudaSuccess : cudaErrorIllegalState;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!flotilla::fake::capturing()) return cudaErrorIllegalState;
  auto works = flotilla::fake::end_capture(stream);
  return works == nullptr ? cudaErrorStreamCaptureInvalidated : make(graph, works.release());
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return destroy<Works>(graph);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return make(made, new Executable{*reinterpret_cast<const Works*>(graph)});
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  if (!flotilla::fake::is_done(reinterpret_cast<const Executable*>(graph)->launched)) {
    std::fputs("the fake GPU: a graph that is not done yet is destroyed\n", stderr);
    std::abort();
  }
  return destroy<Executable>(graph);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const cudaError_t status = unless_capturing();
  if (status != cudaSuccess) return status;
  Executable& executable = *reinterpret_cast<Executable*>(graph);
  const Works& works = executable.works;
  for (const auto& work : works) flotilla::fake::put(stream, work);
  executable.launched = flotilla::fake::place_of(stream);
  account.in_graphs += static_cast<std::int64_t>(works.size());
  ++account.graphs;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if ((flags & cudaEventDisableTiming) == 0) return cudaErrorInvalidValue;
  return make(event, new RecordedEvent{{}, (flags & cudaEventBlockingSync) != 0});
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return destroy<RecordedEvent>(event);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (flotilla::fake::left_out("cudaEventRecord")) return cudaSuccess;
  const std::lock_guard lock(flotilla::fake::queues_mutex());
  of(event).place = flotilla::fake::place_of(stream);
  return unless_capturing();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (flotilla::fake::left_out("cudaEventSynchronize")) return cudaSuccess;
  ++waits;
  refuse_spinning(of(event).sleeps, "an event");
  const cudaError_t status = unless_capturing();
  const std::lock_guard lock(flotilla::fake::queues_mutex());
  if (status == cudaSuccess) flotilla::fake::finish(of(event).place);
  return status;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  return make(pool, new char);
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return destroy<char>(pool);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  const cudaError_t status = unless_capturing();
  if (status != cudaSuccess) return status;
  *memory = flotilla::fake::allocate_on_device(bytes, stream);
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  return flotilla::fake::free_on_device(memory, stream) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int) {
  *memory = flotilla::fake::allocate_page_locked(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  return flotilla::fake::free_page_locked(memory) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned int) {
  return flotilla::fake::lock_pages(memory, bytes) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
}
cudaError_t cudaHostUnregister(void* memory) {
  return flotilla::fake::unlock_pages(memory) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  *attributes = {};
  attributes->type = flotilla::fake::is_device_memory(memory, 1) ? cudaMemoryTypeDevice
                     : flotilla::fake::is_page_locked(memory, 1) ? cudaMemoryTypeHost
                                                                 : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  const cudaError_t status = unless_capturing();
  if (status != cudaSuccess) return status;
  if (!flotilla::fake::is_device_memory(memory, bytes)) return cudaErrorInvalidValue;
  flotilla::fake::put(stream, [=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const cudaError_t status = unless_capturing();
  if (status != cudaSuccess) return status;
  return flotilla::fake::copy(to, from, bytes, kind, stream) ? cudaSuccess : cudaErrorInvalidValue;
}

}  // extern "C"
