// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/kept_values.hpp"

#include <cstdint>

namespace flotilla {

KeptValues::KeptValues(Device& device, const ArenaLayout& layout, const std::vector<bool>& kept)
    : flat_(&device.flat()) {
  std::size_t floats = 0;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    const auto begin = static_cast<std::size_t>(layout[i].offset);
    const auto end = static_cast<std::size_t>(i + 1 < kept.size() ? layout[i + 1].offset : layout.size());
    if (!ranges_.empty() && ranges_.back().begin + ranges_.back().count == begin)
      ranges_.back().count += end - begin;
    else
      ranges_.push_back({begin, end - begin});
    floats += end - begin;
  }
  if (floats > 0) room_ = device.memory().allocate(floats);
}

void KeptValues::take(DeviceSpan<const float> array) {
  std::size_t at = 0;
  for (const Range& range : ranges_) {
    flat_->copy(array.subspan(range.begin, range.count), room_.span().subspan(at, range.count));
    at += range.count;
  }
}

void KeptValues::put_back(DeviceSpan<float> array) const {
  std::size_t at = 0;
  for (const Range& range : ranges_) {
    flat_->copy(room_.span().subspan(at, range.count), array.subspan(range.begin, range.count));
    at += range.count;
  }
}

}  // namespace flotilla
