// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/bfloat16_values.hpp"
#include "kernels/layers/conv2d.hpp"

/// Pixels as rows of matrices, for convolutions as products. Images lie as (N,H,W,C).
namespace flotilla {

/// rows (N·H'·W', K, K, C), a row for each pixel of the output: what the kernel sees of x there, zero beyond
/// the image.
void gather_rows(int threads, const Conv2dSpec& spec, const Bfloat16* x, Bfloat16* rows);

/// dx (N,H,W,C) from rows (N·H'·W', K, K, C), one for each pixel of the output: adds up what each value of x
/// got from the places of the kernel that saw it, and rounds the sum. N is that of the spec's input.
void sum_rows(int threads, const Conv2dSpec& spec, const float* rows, Bfloat16* dx);

}  // namespace flotilla
