// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "kernels/device.hpp"

namespace flotilla {

/// Gives the host access to arrays of a device, one at a time. Where the device shares the host's memory the
/// spans are the arrays themselves; otherwise, and for tensors in half precision, they are copies in pinned
/// memory that is allocated once.
class HostStaging {
 public:
  /// @param floats of the largest array; `device` must outlive this
  HostStaging(Device& device, std::size_t floats);

  std::span<const float> read(DeviceSpan<const float> values);
  /// The values of a tensor in plain layout, converted to float.
  std::span<const float> read(const Tensor& values);
  /// A copy to change; call unmap() afterwards.
  std::span<float> map(DeviceSpan<float> values);
  /// Like map(), but with unspecified contents.
  std::span<float> map_for_writing(DeviceSpan<float> values);
  /// Writes what map() or map_for_writing() returned for `values` back to the device.
  void unmap(DeviceSpan<float> values);
  std::int64_t bytes() const { return static_cast<std::int64_t>(staging_.size() * sizeof(float)); }

 private:
  std::span<float> first(std::size_t count);

  Device& device_;
  /// Empty where memory is shared, until the values of a tensor in half precision are read
  Storage staging_;
};

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
