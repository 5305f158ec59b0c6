// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layers/batch_norm.hpp"
#include "kernels/onednn/image_layout.hpp"

/// The passes of batch normalisation. oneDNN's are not used: they cannot add a residual, and take statistics
/// that are given as constants in the backward pass. Each does
/// its part of the work in `blocks`. The bits do not depend on the threads.
namespace flotilla {

/// Per channel, plain, `channels` values each.
struct NormChannels {
  const float* mean;
  const float* factor;  ///< scale / √(variance + ε)
  const float* shift;
};

/// Two sums per image and channel, as the images' blocks are summed apart: (images, channels) each.
struct ImageSums {
  double* first;
  double* second;
};

/// first: means over the pixels of each image; second: sums of squared differences from them.
void image_statistics(int threads, const ImageLayout& layout, BlockRange blocks, const float* x,
                      ImageSums sums);

/// y = (x − mean) · factor + shift, then `after`; `residual` is read with add_relu only.
void normalise_pixels(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                      const float* x, const float* residual, const NormChannels& of, float* y);

/// What the backward pass reads. more_dy may be null.
struct NormGradient {
  const float* x;
  const float* y;  ///< Read with add_relu only: with relu the sign is computed from x again.
  const float* dy;
  const float* more_dy;
};

/// first: Σ dz · (x − mean); second: Σ dz, over the pixels of each image. dz goes to dresidual with add_relu.
void image_gradient_sums(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                         const NormGradient& in, const NormChannels& of, float* dresidual, ImageSums sums);

/// dx = factor · (dz − constant − (x − mean) · slope), constant and slope per channel.
void normalise_backward(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                        const float* x, const float* dy, const NormChannels& of, const float* constant,
                        const float* slope, float* dx);

}  // namespace flotilla
