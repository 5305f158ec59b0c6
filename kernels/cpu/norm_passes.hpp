// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/image_layout.hpp"
#include "kernels/layers/batch_norm.hpp"

/// The passes of batch normalisation. oneDNN's are not used: they cannot add a residual, and take statistics
/// that are given as constants in the backward pass. Each does
/// its part of the work in `blocks`. The bits do not depend on the threads. T is float (norm_passes.cpp) or
/// Bfloat16 (bfloat16_norm_passes.cpp); sums are in float32 and double, and results are rounded once.
namespace flotilla {

/// Calls body with `after` as a type.
template <AfterNorm A>
struct Then {
  static constexpr AfterNorm value = A;
};
template <class Body>
void with_after(AfterNorm after, const Body& body) {
  switch (after) {
    case AfterNorm::nothing: return body(Then<AfterNorm::nothing>{});
    case AfterNorm::relu: return body(Then<AfterNorm::relu>{});
    case AfterNorm::add_relu: return body(Then<AfterNorm::add_relu>{});
  }
}

/// Arrays per channel, plain, `channels` values each.
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
template <class T>
void image_statistics(int threads, const ImageLayout& layout, BlockRange blocks, const T* x, ImageSums sums);

/// y = (x − mean) · factor + shift, then `after`; `residual` is read with add_relu only.
template <class T>
void normalise_pixels(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after, const T* x,
                      const T* residual, const NormChannels& of, T* y);

/// The inputs of the backward pass. more_dy may be null.
template <class T>
struct NormGradient {
  const T* x;
  const T* y;  ///< Read with add_relu only: with relu the sign is computed from x again.
  const T* dy;
  const T* more_dy;
};

/// first: Σ dz · (x − mean); second: Σ dz, over the pixels of each image. dz goes to dresidual with add_relu.
template <class T>
void image_gradient_sums(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                         const NormGradient<T>& in, const NormChannels& of, T* dresidual, ImageSums sums);

/// dx = factor · (dz − constant − (x − mean) · slope), constant and slope per channel.
template <class T>
void normalise_backward(int threads, const ImageLayout& layout, BlockRange blocks, AfterNorm after,
                        const T* x, const T* dy, const NormChannels& of, const float* constant,
                        const float* slope, T* dx);

}  // namespace flotilla
