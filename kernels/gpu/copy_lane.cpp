// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/copy_lane.hpp"

#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

CudaCopyLane::CudaCopyLane(CudaMemory memory) : memory_(std::move(memory)), lane_(new_stream()) {
  for (Event& mark : marks_) mark = new_event();
}

CopyLane::Mark CudaCopyLane::mark() {
  check(cudaEventRecord(marks_[next_ % marks_.size()].get(), memory_.stream()), "cudaEventRecord");
  return next_++;
}

void CudaCopyLane::copy(void* to, const void* from, std::size_t floats, cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, floats * sizeof(float), kind, lane_.get()), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(lane_.get()), "cudaStreamSynchronize");
}

void CudaCopyLane::download(Mark after, DeviceSpan<const float> from, std::span<float> host) {
  require(from.size() == host.size(), "download of ", from.size(), " into ", host.size(), " values");
  check(cudaSetDevice(memory_.ordinal()), "cudaSetDevice");  // of this thread, which others may share
  check(cudaStreamWaitEvent(lane_.get(), marks_[after % marks_.size()].get(), 0), "cudaStreamWaitEvent");
  copy(host.data(), from.address(), host.size(), cudaMemcpyDeviceToHost);
}

void CudaCopyLane::upload(std::span<const float> host, DeviceSpan<float> to) {
  require(host.size() == to.size(), "upload of ", host.size(), " into ", to.size(), " values");
  check(cudaSetDevice(memory_.ordinal()), "cudaSetDevice");
  copy(to.address(), host.data(), host.size(), cudaMemcpyHostToDevice);
}

}  // namespace flotilla
