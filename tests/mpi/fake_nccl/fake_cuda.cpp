// SPDX-License-Identifier: Apache-2.0
#include "tests/mpi/fake_nccl/fake_cuda.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstring>
#include <deque>
#include <utility>

#include "tests/cuda/fake/sites.hpp"

namespace {

struct FakeStream {
  std::deque<std::function<void()>> work{};
  std::size_t issued = 0;
  std::size_t done = 0;
};

/// The work of a stream up to a place.
struct FakeEvent {
  FakeStream* stream = nullptr;
  std::size_t place = 0;
};

thread_local int gpu = -1;  // none, so that a thread that has not chosen one is found

FakeStream* stream_of(cudaStream_t handle) {
  return reinterpret_cast<FakeStream*>(handle);
}

FakeEvent* event_of(cudaEvent_t handle) {
  return reinterpret_cast<FakeEvent*>(handle);
}

void run(FakeStream& stream, std::size_t place) {
  while (stream.done < place) {
    const std::function<void()> work = std::move(stream.work.front());
    stream.work.pop_front();
    // What this waits for was issued before, so it never asks for this very place.
    work();
    ++stream.done;
  }
}

void put(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(flotilla::test::fake_cuda_mutex());
  stream_of(stream)->work.push_back(std::move(work));
  ++stream_of(stream)->issued;
}

}  // namespace

namespace flotilla::test {

std::recursive_mutex& fake_cuda_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

void put_on_fake_stream(void* stream, std::function<void()> work) {
  put(static_cast<cudaStream_t>(stream), std::move(work));
}

void* make_fake_stream() {
  return new FakeStream;
}

void destroy_fake_stream(void* stream) {
  cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}

void wait_for_fake_stream(void* stream) {
  cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
}

}  // namespace flotilla::test

cudaError_t cudaSetDevice(int ordinal) {
  gpu = ordinal;
  return ordinal >= 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDevice(int* ordinal) {
  *ordinal = gpu;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  *attributes = {};
  attributes->type = cudaMemoryTypeDevice;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaSuccess ? "no error" : "an error of the fake CUDA";
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = reinterpret_cast<cudaStream_t>(new FakeStream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t code = cudaStreamSynchronize(stream);
  delete stream_of(stream);
  return code;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (flotilla::fake::left_out("cudaStreamSynchronize")) return cudaSuccess;
  const std::lock_guard lock(flotilla::test::fake_cuda_mutex());
  run(*stream_of(stream), stream_of(stream)->issued);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (flags != cudaEventDisableTiming) return cudaErrorInvalidValue;
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event_of(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (flotilla::fake::left_out("cudaEventRecord")) return cudaSuccess;
  const std::lock_guard lock(flotilla::test::fake_cuda_mutex());
  *event_of(event) = {stream_of(stream), stream_of(stream)->issued};
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (flotilla::fake::left_out("cudaStreamWaitEvent")) return cudaSuccess;
  const std::lock_guard lock(flotilla::test::fake_cuda_mutex());
  const FakeEvent awaited = *event_of(event);  // a copy: recorded again, the event means another place
  if (awaited.stream == nullptr) return cudaSuccess;
  put(stream, [awaited] { run(*awaited.stream, awaited.place); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  put(stream, [to, from, bytes] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t work, void* data) {
  put(stream, [work, data] { work(data); });
  return cudaSuccess;
}
