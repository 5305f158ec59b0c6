// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/image_layout.hpp"

/// Own passes over image tensors. Their bits do not depend on the threads. T is float or Bfloat16; values are
/// computed in float32 (means in double) and rounded once.
namespace flotilla {

/// y[n,c] = mean of x over the pixels; y (N,C) plain.
template <class T>
void average_pixels(int threads, const ImageLayout& layout, const T* x, T* y);
/// dx = dy[n,c] / pixels.
template <class T>
void spread_over_pixels(int threads, const ImageLayout& layout, const T* dy, T* dx);

/// y ← y + x on `count` values.
template <class T>
void add_to(int threads, std::int64_t count, const T* x, T* y);
/// y = relu(a + b) on `count` values.
template <class T>
void add_and_relu(int threads, std::int64_t count, const T* a, const T* b, T* y);
/// dx = dy where y > 0, 0 otherwise.
template <class T>
void mask_by_relu(int threads, std::int64_t count, const T* y, const T* dy, T* dx);

}  // namespace flotilla
