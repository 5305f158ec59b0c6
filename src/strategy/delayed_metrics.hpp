// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "kernels/device.hpp"
#include "src/strategy/buckets.hpp"

namespace flotilla {

/// Returns the header of a step's gradients one step later, so that the host does not wait for the device.
class DelayedMetrics {
 public:
  explicit DelayedMetrics(Device& device);
  /// Keeps `sums`, header_floats of the device, as they will be. @param before those kept last; zeros:
  /// none
  void exchange(DeviceSpan<const float> sums, std::span<float> before);
  void forget();  ///< Drops what was kept last.

 private:
  Device& device_;
  std::unique_ptr<CopyLane> lane_;
  std::array<Storage, 2> kept_;  ///< In turn
  std::size_t next_ = 0;
  std::optional<CopyLane::Mark> mark_;  ///< Of the other one; empty: it holds nothing
};

}  // namespace flotilla
