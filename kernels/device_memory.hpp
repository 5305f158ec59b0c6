// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor.hpp"

namespace flotilla {

/// The memory of a device, and the copies between it and the host's.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual Storage allocate(std::size_t count) const = 0;  ///< `count` floats, zeroed, 64-byte aligned.
  virtual std::int64_t allocated_bytes() const = 0;  ///< Current allocations, plans' workspaces included.
  virtual void upload(std::span<const float> host, DeviceSpan<float> to) const = 0;  ///< Sizes equal.
  virtual void download(DeviceSpan<const float> from, std::span<float> host) const = 0;
  /// `count` floats of host memory, zeroed, aligned to 64 bytes, with which copies to and from this device
  /// are fast (page-locked for a GPU).
  virtual Storage pinned(std::size_t count) const;
  /// Makes copies to and from existing host memory (a window that ranks share) as fast as with pinned(), for
  /// as long as the result lives. Empty: nothing had to be done.
  virtual Storage pin(std::span<float> /*host*/) const { return {}; }
};

}  // namespace flotilla
