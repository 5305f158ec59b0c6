// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/device.hpp"

namespace flotilla {

/// Arrays of a device in the host's hands, one at a time. Where the device shares the host's memory, these
/// are the arrays themselves; else copies in room that is made once.
class HostRoom {
 public:
  /// @param floats of the largest array; `device` must outlive this
  HostRoom(Device& device, std::size_t floats);

  std::span<const float> read(DeviceSpan<const float> values);
  /// Of a tensor that lies plain, floats whatever the precision.
  std::span<const float> read(const Tensor& values);
  /// To be changed: give_back() afterwards.
  std::span<float> take(DeviceSpan<float> values);
  /// The same without what is in it.
  std::span<float> room_for(DeviceSpan<float> values);
  /// values ← what take() or room_for() of them gave, as it is now
  void give_back(DeviceSpan<float> values);
  std::int64_t bytes() const { return static_cast<std::int64_t>(room_.size() * sizeof(float)); }

 private:
  std::span<float> first(std::size_t count);

  Device& device_;
  Storage room_;  ///< Nothing where memory is shared
};

}  // namespace flotilla
