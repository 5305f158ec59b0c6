// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "src/data/images/axis_weights.hpp"
#include "src/data/images/picture.hpp"

namespace flotilla {

/// What becomes of a resized value v in 0 … 255 of a colour: v · factor + offset.
struct ColourScaling {
  std::array<float, 3> factor{};
  std::array<float, 3> offset{};
};

/// Resizes rows as they come, first along the row, then down the columns, and writes three planes of floats.
/// Its memory grows with the width of the rows, not with their number. For one thread.
class Resizer {
 public:
  virtual ~Resizer() = default;
  /// Computes the weights. @returns the part of the source (x.source by y.source pixels) that is read.
  virtual Box prepare(const AxisSpec& x, const AxisSpec& y) = 0;
  /// Reads the rows of that part. `to` gets planes R, G, B of y.count rows of x.count values.
  virtual void run(RowSource& rows, const ColourScaling& scaling, std::span<float> to) = 0;
};

std::unique_ptr<Resizer> make_resizer(ResizeFilter filter);

}  // namespace flotilla
