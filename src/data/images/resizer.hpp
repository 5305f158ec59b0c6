// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/host_batch.hpp"
#include "src/data/images/axis_weights.hpp"
#include "src/data/images/picture.hpp"

namespace flotilla {

/// Resizes an image row by row, first horizontally, then vertically. Its memory grows with the width of the
/// rows, not with their number. For one thread.
class Resizer {
 public:
  virtual ~Resizer() = default;
  /// Computes the weights. @returns the part of the source (x.source by y.source pixels) that is read.
  virtual Box prepare(const AxisSpec& x, const AxisSpec& y) = 0;
  /// Reads the rows of that part. `to` gets planes R, G, B of y.count rows of x.count scaled values.
  virtual void run(RowSource& rows, const ByteScaling& scaling, std::span<float> to) = 0;
  /// Reads the rows of that part. `to` gets y.count rows of x.count pixels R, G, B, not scaled. Only with a
  /// filter that rounds to bytes.
  virtual void run(RowSource& rows, std::span<std::uint8_t> to) = 0;
};

/// Whether resized values are whole numbers in 0 … 255.
bool rounds_to_bytes(ResizeFilter filter);

std::unique_ptr<Resizer> make_resizer(ResizeFilter filter);

}  // namespace flotilla
