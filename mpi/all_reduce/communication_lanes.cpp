// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/communication_lanes.hpp"

#include "kernels/error.hpp"

namespace flotilla::mpi {

CommunicationLanes::CommunicationLanes(std::span<Collectives* const> lanes, std::size_t capacity,
                                       const std::function<void()>& on_failure,
                                       std::span<trace::Sink* const> sinks) {
  require(!lanes.empty() && (sinks.empty() || sinks.size() == lanes.size()), lanes.size(),
          " communication lanes with ", sinks.size(), " sinks");
  const std::size_t capacity_per_lane = (capacity + lanes.size() - 1) / lanes.size();
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    lanes_.push_back({*lanes[lane], nullptr});
    if (!lanes[lane]->queues())
      lanes_.back().thread = std::make_unique<CommunicationThread>(
          *lanes[lane], capacity_per_lane, on_failure, sinks.empty() ? nullptr : sinks[lane]);
  }
}

void CommunicationLanes::start(DeviceSpan<float> data, CallSite at) {
  const Lane& lane = lanes_[next_];
  next_ = next_ + 1 == lanes_.size() ? 0 : next_ + 1;
  if (lane.thread) return lane.thread->start(data, at);
  lane.collectives.ready(data);
  lane.collectives.all_reduce(data, at);
}

void CommunicationLanes::finish() {
  for (const Lane& lane : lanes_) {
    if (lane.thread) {
      lane.thread->finish();
    } else {
      lane.collectives.settle();
    }
  }
  next_ = 0;  // every step begins alike, whatever the number of its buckets
}

std::int64_t CommunicationLanes::busy_ns() const {
  std::int64_t sum = 0;
  for (const Lane& lane : lanes_)
    if (lane.thread) sum += lane.thread->busy_ns();
  return sum;
}

}  // namespace flotilla::mpi
