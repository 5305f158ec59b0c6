// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <memory>

#include "kernels/tensor.hpp"

namespace flotilla {

/// How the values of an image tensor (N,C,H,W) lie: a pixel of `lanes` channels is contiguous, and (n, block
/// of lanes b, pixel p) starts at n·C·H·W + b·block_stride + p·pixel_stride. Plain tensors have one lane.
struct ImageLayout : Layout {
  ImageLayout(const Shape& shape, dnnl::memory::format_tag tag);
  dnnl::memory::format_tag tag;
  std::int64_t images, channels, pixels;
  std::int64_t lanes, blocks, block_stride, pixel_stride;
};

/// Blocks begin … end − 1 of a tensor: channels begin · lanes … end · lanes − 1.
struct BlockRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The preferred layouts of this processor's convolutions, found by asking oneDNN about one of common size.
class ImageLayouts {
 public:
  explicit ImageLayouts(const dnnl::engine& engine);
  ImageLayout of(const Shape& shape) const;  ///< Plain where the lanes do not divide the channels.

 private:
  dnnl::memory::format_tag tag_;
};

dnnl::memory::desc described(const Shape& shape, dnnl::memory::format_tag tag);

/// @throws InternalError unless the tensor has the shape and lies as `expected`.
void check_image(const char* name, const Tensor& tensor, const Shape& shape, const ImageLayout& expected);

}  // namespace flotilla
