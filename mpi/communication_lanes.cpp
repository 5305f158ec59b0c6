// SPDX-License-Identifier: Apache-2.0
#include "mpi/communication_lanes.hpp"

#include "kernels/error.hpp"

namespace flotilla::mpi {

CommunicationLanes::CommunicationLanes(std::span<Collectives* const> lanes, std::size_t capacity,
                                       const std::function<void()>& on_failure,
                                       std::span<trace::Sink* const> sinks) {
  require(!lanes.empty() && (sinks.empty() || sinks.size() == lanes.size()), lanes.size(),
          " communication lanes with ", sinks.size(), " sinks");
  const std::size_t capacity_per_lane = (capacity + lanes.size() - 1) / lanes.size();
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    threads_.push_back(std::make_unique<CommunicationThread>(*lanes[lane], capacity_per_lane, on_failure,
                                                             sinks.empty() ? nullptr : sinks[lane]));
}

void CommunicationLanes::start(std::span<float> data) {
  threads_[next_]->start(data);
  next_ = next_ + 1 == threads_.size() ? 0 : next_ + 1;
}

void CommunicationLanes::finish() {
  for (const auto& thread : threads_) thread->finish();
  next_ = 0;  // every step begins alike, whatever the number of its buckets
}

std::int64_t CommunicationLanes::busy_ns() const {
  std::int64_t sum = 0;
  for (const auto& thread : threads_) sum += thread->busy_ns();
  return sum;
}

}  // namespace flotilla::mpi
