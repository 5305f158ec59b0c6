// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device.hpp"
#include "models/network.hpp"

namespace flotilla::test {

/// Moves the shifts of a residual network's batch norms to 4, so that no sum is on the edge of a ReLU, where
/// rounding would decide about the derivative.
inline void lift_above_zero(Device& device, const Network& network, DeviceSpan<float> parameters) {
  for (const Slice& slice : network.layout().slices())
    if (slice.name.ends_with(".bias") && slice.name != "fc.bias")
      device.flat().fill(part_of(parameters, slice), 4.0F);
}

}  // namespace flotilla::test
