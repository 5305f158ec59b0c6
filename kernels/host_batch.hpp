// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <variant>

#include "kernels/tensor.hpp"

namespace flotilla {

/// Scaling of a channel's bytes: value = factor · byte + offset.
struct ByteScaling {
  std::array<float, 4> factor = {1.0F, 1.0F, 1.0F, 1.0F};
  std::array<float, 4> offset = {};
  friend bool operator==(const ByteScaling&, const ByteScaling&) = default;
};

/// Images in host memory as bytes in the order (N,H,W,C), C ≤ 4, which the device scales.
struct ByteImages {
  std::span<const std::uint8_t> pixels;
  Shape shape;  ///< (N,C,H,W)
  ByteScaling scaling;
};

/// A batch in host memory: the values of a plain tensor, or images that become them.
using HostBatch = std::variant<std::span<float>, ByteImages>;

}  // namespace flotilla
