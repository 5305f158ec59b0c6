// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/handles.hpp"

namespace flotilla {

namespace {

Event event_with(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
  return Event(event);
}

}  // namespace

Stream new_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

Event new_event() {
  return event_with(cudaEventDisableTiming);
}

Event new_awaited_event() {
  return event_with(cudaEventDisableTiming | cudaEventBlockingSync);
}

}  // namespace flotilla
