// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/delayed_metrics.hpp"

#include <algorithm>

namespace flotilla {

DelayedMetrics::DelayedMetrics(Device& device)
    : device_(device),
      lane_(device.queue().copy_lane()),
      kept_{device.memory().allocate(header_size), device.memory().allocate(header_size)} {}

void DelayedMetrics::exchange(DeviceSpan<const float> sums, std::span<float> before) {
  device_.flat().copy(sums, kept_[next_].span());
  const CopyLane::Mark mark = lane_->mark();
  next_ = 1 - next_;
  if (mark_) {
    lane_->download(*mark_, kept_[next_].span(), before);
  } else {
    std::ranges::fill(before, 0.0F);
  }
  mark_ = mark;
}

void DelayedMetrics::forget() {
  if (!mark_) return;
  std::array<float, header_size> unread{};
  lane_->download(*mark_, kept_[1 - next_].span(), unread);
  mark_.reset();
}

}  // namespace flotilla
