// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "kernels/host_staging.hpp"
#include "models/network.hpp"
#include "src/strategy/buckets.hpp"

namespace flotilla {

/// What the host needs of the passes of a click model: in float32 all of it is copied with one wait for the
/// device.
class ClickResults {
 public:
  /// @param gradients the worker's gradient array (buckets.hpp); `device` must outlive this
  ClickResults(Device& device, const Network& network, DeviceSpan<const float> gradients);

  /// To be called after the backward pass. The following are valid until the next call.
  void read(const Network& network);
  std::span<const float> header() const { return header_; }      ///< header_floats, of the gradient array
  std::span<const float> logits() const { return logits_; }      ///< (batch, 2)
  std::span<const float> gradient() const { return gradient_; }  ///< Gradient of the network's input

 private:
  void read_tensors(const Network& network);

  Device& device_;
  DeviceSpan<const float> source_;     ///< The header on the device
  std::optional<JointRead> together_;  ///< Null: a joint read would gain nothing, or values are halves
  HostStaging staging_;                ///< Used where together_ is null
  std::array<float, header_size> header_copy_{};
  std::vector<float> logits_copy_;
  std::span<const float> header_;
  std::span<const float> logits_;
  std::span<const float> gradient_;
};

}  // namespace flotilla
