// SPDX-License-Identifier: Apache-2.0
#include "mpi/nccl_queue.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla::mpi {

NcclQueue::Lanes NcclQueue::lanes(int count, const std::function<std::unique_ptr<NcclLane>()>& make) {
  require(count >= 1, count, " communicators");
  Lanes lanes;
  while (lanes.size() < static_cast<std::size_t>(count)) lanes.push_back(make());
  return lanes;
}

void NcclQueue::all_reduce(DeviceSpan<float> data) {
  lanes_[started_ % lanes_.size()]->all_reduce(data);
  ++started_;
}

void NcclQueue::settle() {
  const std::size_t used = std::min(started_, lanes_.size());
  for (std::size_t lane = 0; lane < used; ++lane) lanes_[lane]->stream().lead_device();
  started_ = 0;
}

void NcclQueue::wait() {
  for (const auto& lane : lanes_) lane->stream().wait();
}

std::string NcclQueue::failure() const {
  for (const auto& lane : lanes_) {
    std::string failure = lane->failure();
    if (!failure.empty()) return failure;
  }
  return {};
}

}  // namespace flotilla::mpi
