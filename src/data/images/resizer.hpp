// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/host_batch.hpp"
#include "src/data/images/image_transform.hpp"
#include "src/data/images/picture.hpp"

namespace flotilla {

/// Along one axis: `source` pixels are resized to `target`, of which `count` are wanted, from `begin` on.
struct AxisSpec {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
  bool mirrored = false;  ///< The wanted pixels in reverse order.
};

/// Fixed point of the antialias filter: products of 8-bit values and weights add up in 32 bits (as in PIL).
inline constexpr int weight_bits = 22;

/// The weights of a resize along one axis: output pixel i = Σ_k weight(i, k) · source[first(i) + k]. Keeps
/// its memory from image to image.
template <class Weight>
class AxisWeights {
 public:
  struct Taps {
    std::int32_t first;
    std::int32_t count;
  };

  /// Weight = float: the two nearest pixels. Weight = std::int32_t: a triangle as wide as max(1, source ÷
  /// target) to both sides, scaled to 2^weight_bits. Both end at the borders of the source.
  void prepare(const AxisSpec& spec);

  std::int64_t size() const { return static_cast<std::int64_t>(taps_.size()); }
  const Taps& taps(std::int64_t i) const { return taps_[static_cast<std::size_t>(i)]; }
  /// widest() of them, those from taps(i).count on are 0.
  const Weight* weights(std::int64_t i) const {
    return weights_.data() + static_cast<std::size_t>(i) * stride_;
  }
  std::int64_t first_needed() const { return first_needed_; }  ///< First row of the source that is needed.
  std::int64_t needed() const { return needed_; }              ///< Number of source pixels from there on.
  std::size_t widest() const { return widest_; }               ///< Largest number of taps.

 private:
  std::vector<Taps> taps_;
  std::vector<Weight> weights_;  ///< stride_ for each output.
  std::size_t stride_ = 0;
  std::size_t widest_ = 0;
  std::int64_t first_needed_ = 0;
  std::int64_t needed_ = 0;
};

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
