// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn.h>

namespace flotilla::fake {

/// What the last convolution was asked to do.
struct Convolution {
  int algorithm = -1;  ///< 2: the fastest that may be used; 3: the one that always gives the same bits
  cudnnMathType_t math{};
};
Convolution last_convolution();

/// The next convolutions that are captured fail, as those of algorithms that wait for the GPU do.
void refuse_captured_convolutions(int count);

}  // namespace flotilla::fake
