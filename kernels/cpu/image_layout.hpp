// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <memory>

#include "kernels/precision.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// The memory layout of an image tensor (N,C,H,W): a pixel of `lanes` channels is contiguous, and (n, block
/// of lanes b, pixel p) starts at n·C·H·W + b·block_stride + p·pixel_stride. Plain tensors have one lane.
struct ImageLayout : Layout {
  ImageLayout(const Shape& shape, dnnl::memory::format_tag tag, std::int64_t lanes);
  dnnl::memory::format_tag tag;
  std::int64_t images, channels, pixels;
  std::int64_t lanes, blocks, block_stride, pixel_stride;
};

/// Blocks begin … end − 1 of a tensor: channels begin · lanes … end · lanes − 1.
struct BlockRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The most channels of a block of an image tensor.
inline constexpr std::int64_t max_lanes = 2048;

/// The layouts of a device's image tensors. In float32 those that this processor's convolutions prefer, found
/// by asking oneDNN about one of common size; plain where the lanes do not divide the channels. In bfloat16
/// by AVX512_BF16 blocks of 16 lanes too: a step of ResNet-50, 16 images, takes 0.91 of the time that it
/// takes in (N,H,W,C) (oneDNN 2.6.3, Zen 4, two threads). By AMX, and where 16 does not divide the channels,
/// (N,H,W,C), in which products can take pixels as rows. A block is then all channels, so that passes read
/// and write memory in order, or fewer where there would be less than 4 units (a block of an image) for each
/// thread: 53 batch norms of ResNet-50, 16 images, took 0.71 of the time that blocks of at most 128 channels
/// took (Sapphire Rapids, two threads).
class ImageLayouts {
 public:
  ImageLayouts(const dnnl::engine& engine, Precision precision, int threads);
  ImageLayout of(const Shape& shape) const;  ///< Plain for up to 4 channels.

 private:
  std::int64_t lanes_of_bfloat16(const Shape& shape) const;

  Precision precision_;
  std::int64_t threads_;
  dnnl::memory::format_tag tag_;
};

dnnl::memory::desc described(const Shape& shape, dnnl::memory::format_tag tag, dnnl::memory::data_type type);

/// @throws InternalError unless the tensor has the shape and lies as `expected`.
void check_image(const char* name, const Tensor& tensor, const Shape& shape, const ImageLayout& expected);

}  // namespace flotilla
