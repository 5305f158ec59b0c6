// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/onednn/image_layout.hpp"

/// Own passes over image tensors. Their bits do not depend on the threads.
namespace flotilla {

/// y[n,c] = mean of x over the pixels; y (N,C) plain.
void average_pixels(int threads, const ImageLayout& layout, const float* x, float* y);
/// dx = dy[n,c] / pixels.
void spread_over_pixels(int threads, const ImageLayout& layout, const float* dy, float* dx);

/// y ← y + x on `count` values.
void add_to(int threads, std::int64_t count, const float* x, float* y);
/// y = relu(a + b) on `count` values.
void add_and_relu(int threads, std::int64_t count, const float* a, const float* b, float* y);
/// dx = dy where y > 0, else 0.
void mask_by_relu(int threads, std::int64_t count, const float* y, const float* dy, float* dx);

}  // namespace flotilla
