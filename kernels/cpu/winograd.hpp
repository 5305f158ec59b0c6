// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/image_layout.hpp"
#include "kernels/cpu/primitive_scope.hpp"
#include "kernels/layers/conv2d.hpp"

namespace flotilla {

enum class ConvolutionPass { forward, backward_data, backward_weights };

/// Convolutions of 3 x 3 and stride 1 by Winograd's algorithm F(4x4, 3x3), in float32, on images and weights
/// in blocks of lanes: images (N, C/L, H, W, L), weights (O/L, I/L, 3, 3, L of I, L of O). Takes a quarter of
/// the multiplications of the direct algorithm; its rounding errors are some times as large (the bounds are
/// in tests/kernels/test_winograd.cpp). The results do not depend on the number of threads.
class WinogradConv2d {
 public:
  /// Whether the shapes and the layouts are such that the algorithm applies.
  static bool applies(const Conv2dSpec& spec, const ImageLayout& source, const ImageLayout& destination);
  /// Whether a pass takes less time than oneDNN's direct convolution, by measured costs of both.
  static bool pays(const Conv2dSpec& spec, ConvolutionPass pass, std::int64_t lanes);
  /// The layout of the weights.
  static dnnl::memory::desc weights(const Conv2dSpec& spec, std::int64_t lanes);

  /// Reserves scratch memory for `passes`: transformed weights of all channels, and tiles of at most some MiB
  /// for each thread.
  WinogradConv2d(std::shared_ptr<PrimitiveScope> scope, const Conv2dSpec& spec, std::int64_t lanes);
  /// `bias` (O): null for none.
  void forward(const float* x, const float* weights, const float* bias, float* y) const;
  void backward_data(const float* dy, const float* weights, float* dx) const;
  /// `db` (O): null for none. Adds to both where the specification says so.
  void backward_weights(const float* x, const float* dy, float* dw, float* db) const;

  /// One direction: forward, or backward_data, whose inputs are the gradients of the outputs.
  struct Direction {
    std::int64_t images = 0;
    std::int64_t in_channels = 0, in_rows = 0, in_columns = 0;
    std::int64_t out_channels = 0, out_rows = 0, out_columns = 0;
    std::int64_t padding = 0;
    std::int64_t tile_rows() const;
    std::int64_t tile_columns() const;
    std::int64_t tiles() const { return images * tile_rows() * tile_columns(); }
  };

 private:
  float* scratch() const { return reinterpret_cast<float*>(scope_->scratch()); }

  std::shared_ptr<PrimitiveScope> scope_;
  Direction forward_;
  Direction backward_;
  std::int64_t lanes_;
  bool accumulate_;
};

}  // namespace flotilla
