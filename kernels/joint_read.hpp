// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>

#include "kernels/device.hpp"
#include "kernels/host_staging.hpp"

namespace flotilla {

/// Copies several arrays of a device that computes in float32 to the host, with one wait for its work.
class JointRead {
 public:
  /// @param floats of all arrays; `device` must outlive this
  JointRead(Device& device, std::size_t floats);

  /// @param tensors in plain layout
  /// @returns their values, one after the other, after those of `array`; valid until the next call
  std::span<const float> read(DeviceSpan<const float> array, std::initializer_list<const Tensor*> tensors);

 private:
  void append(DeviceSpan<const float> values);

  Device& device_;
  Storage together_;  ///< Gathers the tensors on the device
  HostStaging staging_;
  std::size_t used_ = 0;  ///< Floats of together_
};

}  // namespace flotilla
