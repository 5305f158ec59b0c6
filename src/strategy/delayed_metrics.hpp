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
  /// Keeps a copy of `sums`, header_floats on the device, in the order of its work. @param before gets those
  /// kept last, or zeros
  void exchange(DeviceSpan<const float> sums, std::span<float> before);
  void forget();  ///< Drops the sums that were kept last.

 private:
  Device& device_;
  std::unique_ptr<CopyLane> lane_;
  std::array<Storage, 2> kept_;  ///< Used alternately
  std::size_t next_ = 0;
  std::optional<CopyLane::Mark> mark_;  ///< After the copy to the other one; empty: there was none
};

}  // namespace flotilla
